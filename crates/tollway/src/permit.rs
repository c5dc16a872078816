//! A permit: a granted take, from its grant until it is done.

mod leased;
mod ticket;

use std::fmt;
use std::sync::atomic::Ordering;

use tokio::task::AbortHandle;
use tollway_core::{
    Answer, Begun, Booking, Cost, Decision, Grant, Outcome, PermitId, Reading, Settled, Span, StoreResult,
    Terms, Timestamp, Verb,
};

use crate::background::in_background;
use crate::bound::{Asks, next_permit};
use crate::journal::Held;
use crate::renewal::keep_slots;
use crate::request::wrong_answer;
use crate::{Denied, TakeError};

pub use ticket::{Ticket, TicketBegun, TicketParty};

/// A granted take.
///
/// Call [`begin`](Permit::begin) just before the call goes out if the vendor counts by its own clock;
/// [`settle`](Permit::settle) if the actual cost differs; [`give_back`](Permit::give_back) if the call was never made.
/// Dropping it means the call is done: slots are freed, units stay spent.
#[must_use = "dropping a permit means that the call is done"]
pub struct Permit {
    asks: Asks,
    /// In the store's time, as the store needs it back.
    booking: Booking,
    /// Whether it was decided without the store, or nothing was taken: nobody is owed anything.
    unbooked: bool,
    /// Whether the same permit may be in other hands too, because its take had an id.
    remember: bool,
    /// Whether it was paid from a lease: then its booking is by our clock, and the store knows nothing of it.
    leased: bool,
    /// Whether dropping it has nothing left to do: it holds no slots, or they are freed.
    over: bool,
    /// What few permits have.
    more: Option<Box<More>>,
    /// Its entry in the journals; none if another process may hold it as well.
    _held: Option<Held>,
}

#[derive(Default)]
struct More {
    degraded: bool,
    would_deny: u16,
    readings: Vec<Reading>,
    /// When it may begin, and until when, by our clock, if that is not the store's.
    local: Option<(Timestamp, Timestamp)>,
    /// Keeps the slots of a long call.
    renewal: Option<AbortHandle>,
}

impl Drop for More {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}

impl Permit {
    /// The permit of a take that went the short way, in memory or from a lease: it has nothing that few permits have.
    pub(crate) fn of_booking(asks: Asks, booking: Booking) -> Self {
        let leased = asks.first().bound.leases.is_some();
        let held = Some(Held::note(&asks, &booking));
        Self { asks, booking, unbooked: false, remember: false, leased, over: true, more: None, _held: held }
    }

    pub(crate) fn with_readings(mut self, readings: Vec<Reading>) -> Self {
        self.more.get_or_insert_default().readings = readings;
        self
    }

    pub(crate) fn new(
        mut asks: Asks,
        grant: Grant,
        sent_at: Option<Timestamp>,
        remember: bool,
        degraded: bool,
    ) -> Self {
        asks.count_alarms(&grant);
        let nothing = grant.would_deny != 0 && asks.forget_denied_shadows(grant.would_deny);
        let unbooked = degraded || nothing;
        let over = nothing || !asks.iter().any(|ask| ask.bound.policy.holds_slots());
        let local = sent_at.map(|sent_at| local_times(&asks, &grant, sent_at));
        let booking = grant.booking();
        let (would_deny, readings) = (grant.would_deny, grant.readings);
        let more = More { degraded, would_deny, readings, local, renewal: None };
        let more = Some(Box::new(more));
        let held = Some(Held::note(&asks, &booking));
        let mut permit = Self { asks, booking, unbooked, remember, leased: false, over, more, _held: held };
        if !over {
            permit.keep_slots();
        }
        permit
    }

    pub(crate) fn asks(&self) -> &Asks {
        &self.asks
    }

    pub(crate) fn count(&self) {
        for ask in self.asks.iter() {
            if let Some(counts) = &ask.bound.counts {
                counts.granted(ask.subject.as_str(), ask.cost());
            }
        }
    }

    #[cold]
    fn keep_slots(&mut self) {
        let renewal = keep_slots(&self.asks, self.booking.permit, self.unbooked);
        if let Some(old) = std::mem::replace(&mut self.more.get_or_insert_default().renewal, renewal) {
            old.abort();
        }
    }

    /// By our clock: when it may begin, and until when.
    fn times(&self) -> (Timestamp, Timestamp) {
        let local = self.more.as_ref().and_then(|more| more.local);
        local.unwrap_or((self.booking.at, self.booking.good_until))
    }

    /// Its id, unique among all who share the store.
    pub fn id(&self) -> PermitId {
        self.booking.permit
    }

    /// Until when it may begin, by the store's clock, or by ours if it was paid from a lease; none if it does not end.
    pub fn good_until(&self) -> Option<Timestamp> {
        Some(self.booking.good_until).filter(|end| *end < Timestamp::MAX)
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.degraded)
    }

    /// Whether a shadow policy would have denied it.
    pub fn would_deny(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.would_deny != 0)
    }

    /// Whether the policy that the take named at this place, from 0, is a shadow that would have denied it.
    pub fn would_deny_of(&self, place: usize) -> bool {
        let bit = u32::try_from(place).ok().and_then(|place| 1u16.checked_shl(place)).unwrap_or(0);
        self.more.as_ref().is_some_and(|more| more.would_deny & bit != 0)
    }

    /// What every limit showed after the grant, if the take asked for it.
    pub fn readings(&self) -> &[Reading] {
        self.more.as_ref().map_or(&[], |more| &more.readings)
    }

    /// Makes sure that the call may go out now: free while the permit is good. If it came too late for its window, it
    /// takes again, at the back of the line; what it took before stays spent.
    pub async fn begin(&mut self) -> Result<(), TakeError> {
        loop {
            let shared = self.asks.shared().clone();
            let (due, good_until) = self.times();
            shared.timers.sleep_until(&*shared.clock, due).await?;
            if self.unbooked || shared.clock.now() < good_until || self.begin_late().await? {
                return Ok(());
            }
        }
    }

    /// By our clock it is too late: the store says whether it may go out all the same, or takes again for it. Answers
    /// whether to go; else its times are new.
    async fn begin_late(&mut self) -> Result<bool, TakeError> {
        let shared = self.asks.shared().clone();
        let sent_at = if shared.in_process() { None } else { Some(shared.clock.now()) };
        let (permit, max_wait) = (next_permit(), Span::MAX);
        let terms = Terms { permit, max_wait, call: None, readings: false };
        let booking = match self.leased {
            // The lease has ended; the store can only take again.
            true => Booking { at: Timestamp::EPOCH, good_until: Timestamp::EPOCH, ..self.booking },
            false => self.booking,
        };
        match one(self.asks.send(Verb::Begin(booking, terms)).await)? {
            Outcome::Begun(Begun::Now) => Ok(true),
            Outcome::Begun(Begun::Early(delay)) => {
                let due = shared.clock.now().plus(delay);
                shared.timers.sleep_until(&*shared.clock, due).await?;
                Ok(false)
            }
            Outcome::Begun(Begun::Again(Decision::Granted(grant))) => {
                self.taken_again(&grant, sent_at);
                Ok(false)
            }
            Outcome::Begun(Begun::Again(Decision::Denied(denial))) => {
                let bound = self.asks.get(denial.party).unwrap_or(self.asks.first()).bound.clone();
                Err(TakeError::Denied(Denied { bound, denial, degraded: false }))
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    fn taken_again(&mut self, grant: &Grant, sent_at: Option<Timestamp>) {
        self.unbooked = grant.would_deny != 0 && self.asks.forget_denied_shadows(grant.would_deny);
        self.booking = grant.booking();
        self.leased = false;
        let local = sent_at.map(|sent_at| local_times(&self.asks, grant, sent_at));
        self.more.get_or_insert_default().local = local;
        if !self.over {
            self.keep_slots();
        }
    }

    /// The call is over and took this much of one unit.
    pub async fn settle(self, unit: &str, actual: u64) -> Result<Settled, TakeError> {
        self.settle_all([(unit, actual)]).await
    }

    /// The call is over and took these amounts; units that are not named stay as they were taken.
    ///
    /// A unit that a policy of the permit does not count is skipped there, if another one counts it.
    pub async fn settle_all<'a>(
        mut self,
        amounts: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Settled, TakeError> {
        let actual = self.actual_costs(&amounts.into_iter().collect::<Vec<_>>())?;
        if self.unbooked {
            return Ok(Settled::Dropped);
        }
        if self.leased {
            return self.settle_leased(actual.first()).await;
        }
        let (booking, remember) = (self.booking, self.remember);
        let answer = self.asks.send(Verb::Settle { booking, actual: &actual, remember });
        self.settled(answer).await
    }

    /// The call was not made: gives the whole cost back, as far as that can still be done.
    pub async fn give_back(mut self) -> Result<Settled, TakeError> {
        if self.unbooked {
            return Ok(Settled::Dropped);
        }
        if self.leased {
            return self.settle_leased(None).await;
        }
        let answer = self.send_return();
        self.settled(answer).await
    }

    /// The call is done: frees its slots. Dropping the permit does the same in the background.
    pub async fn done(mut self) -> Result<(), TakeError> {
        if self.over {
            return Ok(());
        }
        self.over = true;
        if self.unbooked {
            self.asks.shared().fallback.done(&self.asks, self.booking.permit);
        } else {
            one(self.asks.send(Verb::Done(self.booking.permit)).await)?;
        }
        self.asks.shared().queues.notify(&self.asks);
        Ok(())
    }

    /// [`begin`](Permit::begin) on a thread without a runtime.
    pub fn begin_blocking(&mut self) -> Result<(), TakeError> {
        let shared = self.asks.shared().clone();
        shared.timers.block_on(self.begin())?
    }

    /// [`settle`](Permit::settle) on a thread without a runtime.
    pub fn settle_blocking(self, unit: &str, actual: u64) -> Result<Settled, TakeError> {
        let shared = self.asks.shared().clone();
        shared.timers.block_on(self.settle(unit, actual))?
    }

    /// [`give_back`](Permit::give_back) on a thread without a runtime.
    pub fn give_back_blocking(self) -> Result<Settled, TakeError> {
        let shared = self.asks.shared().clone();
        shared.timers.block_on(self.give_back())?
    }

    /// [`done`](Permit::done) on a thread without a runtime.
    pub fn done_blocking(self) -> Result<(), TakeError> {
        let shared = self.asks.shared().clone();
        shared.timers.block_on(self.done())?
    }

    /// As one whose time has not come: dropping it gives it back.
    pub(crate) fn into_place(self) -> Place {
        Place(Some(self))
    }

    fn actual_costs(&self, amounts: &[(&str, u64)]) -> Result<Vec<Cost>, TakeError> {
        let counts = |policy: &tollway_core::Policy, unit: &str| {
            policy.units().iter().any(|known| known.as_str() == unit)
        };
        let known = |unit: &str| self.asks.iter().any(|ask| counts(&ask.bound.policy, unit));
        let of_ask = |ask: &crate::bound::Ask| {
            let named =
                amounts.iter().copied().filter(|(unit, _)| counts(&ask.bound.policy, unit) || !known(unit));
            ask.bound.policy.actual_cost(ask.cost(), named).map_err(TakeError::from)
        };
        self.asks.iter().map(of_ask).collect()
    }

    /// Slots are freed with it; where they were not, dropping the permit still does.
    async fn settled(&mut self, answer: Answer) -> Result<Settled, TakeError> {
        match one(answer.await)? {
            Outcome::Settled(settled) => {
                self.over |= settled != Settled::Dropped;
                self.count_lost(settled);
                self.asks.shared().queues.notify(&self.asks);
                Ok(settled)
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    fn count_lost(&self, settled: Settled) {
        if matches!(settled, Settled::Partly | Settled::Dropped) {
            self.asks.shared().permits_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send_return(&self) -> Answer {
        self.asks.send(Verb::Return { booking: self.booking, remember: self.remember })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match (self.over, self.unbooked) {
            (true, _) => {}
            (false, true) => {
                self.asks.shared().fallback.done(&self.asks, self.booking.permit);
                self.asks.shared().queues.notify(&self.asks);
            }
            (false, false) => in_background(&self.asks, self.asks.send(Verb::Done(self.booking.permit))),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<&str> = self.asks.iter().map(|ask| ask.bound.policy.name().as_str()).collect();
        f.debug_struct("Permit")
            .field("policies", &policies)
            .field("booking", &self.booking)
            .finish_non_exhaustive()
    }
}

/// A permit whose time has not come. Whoever stops waiting for it gives it back.
pub(crate) struct Place(Option<Permit>);

impl Place {
    pub(crate) async fn due(&self) -> Result<(), TakeError> {
        match &self.0 {
            Some(permit) => {
                let shared = permit.asks.shared();
                shared.timers.sleep_until(&*shared.clock, permit.times().0).await
            }
            None => Ok(()),
        }
    }

    pub(crate) fn into_permit(mut self) -> Result<Permit, TakeError> {
        self.0.take().ok_or_else(|| wrong_answer().into())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A place taken under an id belongs to the id: whoever asks again with it is given the same place.
        if let Some(mut permit) = self.0.take()
            && !permit.unbooked
            && !permit.remember
        {
            permit.over = true;
            let answer = permit.send_return();
            in_background(&permit.asks, answer);
        }
    }
}

/// From the store's time to ours: due when it surely is, counted from the answer; good while it surely is, counted from
/// before the request went out.
fn local_times(asks: &Asks, grant: &Grant, sent_at: Timestamp) -> (Timestamp, Timestamp) {
    let due = asks.shared().clock.now().plus(grant.delay());
    match grant.good_until {
        Timestamp::MAX => (due, Timestamp::MAX),
        good_until => (due, sent_at.plus(good_until.since(grant.now))),
    }
}

fn one(result: StoreResult) -> Result<Outcome, TakeError> {
    result?.into_iter().next().ok_or_else(|| wrong_answer().into())
}
