//! What a client may take alone while it cannot reach the server: the server's own local share, divided by its clients.
//!
//! A client is a connection that has sent a take. Each holds a part of the server's share, and all parts together are never more
//! than the whole: a newcomer gets what is left of it, and its equal part once the others have taken again. What a closed
//! connection held stays held for as long as its client may still use it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use tollway::core::{Clock, Decision, Policy, Span, WhenStoreFails};
use tollway::{Limiter, Timestamp};
use tollway_inbound::InboundTake;
use tollway_inbound::headers::{LimitStatus, whole_ms};

use crate::worker::Worker;

/// How long a client may use what one answer said: longer than most outages, and not so long that clients which are gone keep
/// much from the others.
const VALID_FOR: Span = Span::from_mins(10);

/// Closed connections whose parts are kept apart. Of more, the newest two become one, which lasts as long as the later.
const CLOSED_MAX: usize = 1_024;

/// The whole share of the server. A part is a number of these.
const WHOLE: u64 = 1 << 32;

/// How the server's share is divided.
pub(crate) struct ClientShares {
    clock: Arc<dyn Clock>,
    parts: Mutex<Parts>,
    /// The equal part of each client, readable without the lock.
    equal: AtomicU64,
}

#[derive(Debug, Default)]
struct Parts {
    clients: u64,
    held: u64,
    closed: VecDeque<ClosedPart>,
}

/// What clients held whose connections are closed.
#[derive(Clone, Copy, Debug)]
struct ClosedPart {
    until: Timestamp,
    clients: u64,
    part: u64,
}

/// The part of one connection. Its first take makes it a client.
pub(crate) struct OwnPart {
    shares: Arc<ClientShares>,
    part: Cell<Option<u64>>,
}

impl ClientShares {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, parts: Mutex::default(), equal: AtomicU64::new(WHOLE) }
    }

    /// For a connection that has taken nothing yet.
    pub(crate) fn of_connection(self: &Arc<Self>) -> OwnPart {
        OwnPart { shares: Arc::clone(self), part: Cell::new(None) }
    }
}

impl OwnPart {
    /// The part of a client that takes now.
    fn renew(&self) -> u64 {
        let equal = self.shares.equal.load(Ordering::Relaxed);
        if self.part.get() == Some(equal) {
            return equal;
        }
        let now = self.shares.clock.now();
        let mut parts = self.shares.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.forget_closed(now);
        if self.part.get().is_none() {
            parts.clients = parts.clients.saturating_add(1);
        }
        let before = self.part.get().unwrap_or(0);
        let equal = parts.equal();
        let part = equal.min(WHOLE.saturating_sub(parts.held.saturating_sub(before)));
        parts.held = parts.held.saturating_sub(before).saturating_add(part);
        self.shares.equal.store(equal, Ordering::Relaxed);
        self.part.set(Some(part));
        part
    }
}

impl Drop for OwnPart {
    fn drop(&mut self) {
        if let Some(part) = self.part.get() {
            let until = self.shares.clock.now().plus(VALID_FOR);
            let mut parts = self.shares.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.close(ClosedPart { until, clients: 1, part });
        }
    }
}

impl Parts {
    fn equal(&self) -> u64 {
        WHOLE.checked_div(self.clients).unwrap_or(WHOLE)
    }

    fn close(&mut self, closed: ClosedPart) {
        if self.closed.len() < CLOSED_MAX {
            self.closed.push_back(closed);
        } else if let Some(newest) = self.closed.back_mut() {
            newest.until = newest.until.max(closed.until);
            newest.clients = newest.clients.saturating_add(closed.clients);
            newest.part = newest.part.saturating_add(closed.part);
        }
    }

    fn forget_closed(&mut self, now: Timestamp) {
        while let Some(oldest) = self.closed.front().filter(|closed| closed.until <= now) {
            self.clients = self.clients.saturating_sub(oldest.clients);
            self.held = self.held.saturating_sub(oldest.part);
            self.closed.pop_front();
        }
    }
}

/// What this client may take of one policy and subject while the server does not answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alone<'a> {
    /// How much of each unit.
    amount: AmountByUnit<'a>,
    /// For how long.
    until_ms: u64,
}

/// The amount of each unit that the policy limits.
#[derive(Debug, Default, JsonSchema)]
#[schemars(transparent)]
struct AmountByUnit<'a>(
    #[schemars(with = "std::collections::BTreeMap<&str, u64>")] SmallVec<[(&'a str, u64); 2]>,
);

impl Serialize for AmountByUnit<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'a> AmountByUnit<'a> {
    /// Of several limits of one unit, the smallest amount counts.
    fn at_most(&mut self, unit: &'a str, amount: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, known)) => *known = amount.min(*known),
            None => self.0.push((unit, amount)),
        }
    }
}

/// Nothing for takes under several policies, and where the store has not said what is left.
pub(crate) fn alone<'a>(
    worker: &Worker,
    client: &OwnPart,
    take: &InboundTake<'_>,
    statuses: &[LimitStatus<'a>],
    decision: &Decision,
) -> Option<Alone<'a>> {
    let part = client.renew();
    let [charge] = &take.charges[..] else { return None };
    share_of_client(&worker.state.limiter, charge.policy, part, statuses, decision.now)
}

/// A client cannot tell when a slot is free, so it gets none of a policy with slots. A shadow policy denies nothing, and says
/// nothing.
fn share_of_client<'a>(
    limiter: &Limiter,
    policy: &Policy,
    part: u64,
    statuses: &[LimitStatus<'a>],
    now: Timestamp,
) -> Option<Alone<'a>> {
    let until = statuses.iter().map(|status| known_until(status, now)).max()?;
    if policy.shadow() || statuses.iter().any(|status| status.limit.has_slots()) {
        return None;
    }
    let limiters = limiter.limiters_of_store();
    let mut amount = AmountByUnit::default();
    for LimitStatus { limit, reading, .. } in statuses {
        let left = if reading.as_of > now { 0 } else { reading.remaining };
        let of_server = match policy.when_store_fails() {
            WhenStoreFails::Closed => 0,
            WhenStoreFails::Open => left,
            WhenStoreFails::Local => policy.local_share().among(limiters, left).min(left),
        };
        amount.at_most(limit.unit().as_str(), part_of(of_server, part));
    }
    Some(Alone { amount, until_ms: whole_ms(until.since(now).min(VALID_FOR)) })
}

/// Rounded down.
fn part_of(amount: u64, part: u64) -> u64 {
    let product = u128::from(amount) * u128::from(part) / u128::from(WHOLE);
    u64::try_from(product).unwrap_or(0)
}

/// A period from now, at least: a share of what is left is no more than a share of any later window or of a fuller bucket.
fn known_until(status: &LimitStatus<'_>, now: Timestamp) -> Timestamp {
    now.plus(status.limit.period().unwrap_or_default()).max(status.reading.resets_at)
}

#[cfg(test)]
mod tests {
    use tollway_testkit::ManualClock;

    use super::*;

    fn shares() -> (Arc<ManualClock>, Arc<ClientShares>) {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000)));
        let shares = ClientShares::new(Arc::clone(&clock) as Arc<dyn Clock>);
        (clock, Arc::new(shares))
    }

    #[test]
    fn parts_of_clients_that_come_one_after_another_are_never_more_than_the_whole() {
        let (_, shares) = shares();
        let clients: Vec<OwnPart> = (0..50).map(|_| shares.of_connection()).collect();
        assert_eq!(clients[0].renew(), WHOLE);
        for round in 0..3 {
            for client in &clients {
                client.renew();
                let held: u64 = clients.iter().filter_map(|client| client.part.get()).sum();
                assert!(held <= WHOLE, "round {round}");
            }
        }
        let parts: Vec<u64> = clients.iter().map(OwnPart::renew).collect();
        assert_eq!(parts, vec![WHOLE / 50; 50], "once all have taken again");
    }

    #[test]
    fn a_closed_connection_holds_its_part_until_its_client_may_no_longer_use_it() {
        let (clock, shares) = shares();
        let first = shares.of_connection();
        assert_eq!(first.renew(), WHOLE);
        drop(first);
        let second = shares.of_connection();
        assert_eq!(second.renew(), 0);
        clock.advance(VALID_FOR);
        assert_eq!(second.renew(), WHOLE);
    }

    #[test]
    fn any_number_of_closed_connections_is_kept_in_bounded_memory() {
        let (clock, shares) = shares();
        for _ in 0..3 * CLOSED_MAX {
            shares.of_connection().renew();
        }
        let parts = || shares.parts.lock().unwrap().closed.len();
        assert_eq!(parts(), CLOSED_MAX);
        clock.advance(VALID_FOR);
        assert_eq!(shares.of_connection().renew(), WHOLE);
        assert_eq!(shares.parts.lock().unwrap().clients, 1);
    }

    #[test]
    fn a_part_of_an_amount_is_rounded_down() {
        assert_eq!([100, 1, 7].map(|amount| part_of(amount, WHOLE / 3)), [33, 0, 2]);
        assert_eq!(part_of(u64::MAX, WHOLE), u64::MAX);
    }
}
