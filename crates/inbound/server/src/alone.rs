//! What a client may take alone while it cannot reach the server: the server's own local share, divided by its clients.
//!
//! A client is a connection that has sent a take in this minute or the one before. A program that opens a connection for each
//! take counts once for each, which makes shares smaller, never larger.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use tollway::core::{Decision, Policy, WhenStoreFails};
use tollway::{Limiter, Timestamp};
use tollway_inbound::InboundTake;
use tollway_inbound::headers::{LimitStatus, whole_ms};

use crate::worker::Worker;

const MINUTE_MS: u64 = 60_000;

/// The clients that took in this minute and in the one before.
#[derive(Debug, Default)]
pub(crate) struct RecentClients {
    counted: Mutex<Minutes>,
    /// The larger of both counts, readable without the lock.
    clients: AtomicU64,
}

#[derive(Debug, Default)]
struct Minutes {
    minute: u64,
    in_it: u64,
    before: u64,
}

/// The minute in which a connection was last counted.
pub(crate) type CountedIn = Rc<Cell<Option<u64>>>;

impl RecentClients {
    /// Counts a client once a minute. Returns how many there are, at least 1.
    fn count(&self, client: &CountedIn, now: Timestamp) -> u64 {
        let minute = now.as_millis() / MINUTE_MS;
        if client.replace(Some(minute)) != Some(minute) {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.add(minute);
            self.clients.store(counted.in_it.max(counted.before), Ordering::Relaxed);
        }
        self.clients.load(Ordering::Relaxed).max(1)
    }
}

impl Minutes {
    /// Clocks of stores differ by a little: an earlier minute counts as this one.
    fn add(&mut self, minute: u64) {
        if minute > self.minute {
            self.before = if minute == self.minute.saturating_add(1) { self.in_it } else { 0 };
            (self.minute, self.in_it) = (minute, 0);
        }
        self.in_it = self.in_it.saturating_add(1);
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
    client: &CountedIn,
    take: &InboundTake<'_>,
    statuses: &[LimitStatus<'a>],
    decision: &Decision,
) -> Option<Alone<'a>> {
    let clients = worker.state.recent_clients.count(client, decision.now);
    let [charge] = &take.charges[..] else { return None };
    share_of_client(&worker.state.limiter, charge.policy, clients, statuses, decision.now)
}

/// A client cannot tell when a slot is free, so it gets none of a policy with slots. A shadow policy denies nothing, and says
/// nothing.
fn share_of_client<'a>(
    limiter: &Limiter,
    policy: &Policy,
    clients: u64,
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
        amount.at_most(limit.unit().as_str(), of_server.checked_div(clients).unwrap_or(0));
    }
    Some(Alone { amount, until_ms: whole_ms(until.since(now)) })
}

/// A period from now, at least: a share of what is left is no more than a share of any later window or of a fuller bucket.
fn known_until(status: &LimitStatus<'_>, now: Timestamp) -> Timestamp {
    now.plus(status.limit.period().unwrap_or_default()).max(status.reading.resets_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_counts_once_in_a_minute_and_still_in_the_next() {
        let clients = RecentClients::default();
        let [first, second] = [(); 2].map(|()| CountedIn::default());
        let count = |client: &CountedIn, seconds| clients.count(client, Timestamp::from_secs(seconds));
        assert_eq!([count(&first, 60), count(&first, 80), count(&second, 119)], [1, 1, 2]);
        assert_eq!([count(&first, 120), count(&first, 179)], [2, 2], "both took in the minute before");
        assert_eq!(count(&first, 180), 1, "the other one took two minutes ago");
        assert_eq!(count(&second, 900), 1, "the first one took long ago");
        assert_eq!(count(&first, 899), 2, "a clock that is a little behind");
    }
}
