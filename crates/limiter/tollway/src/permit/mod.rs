//! A permit: a granted take, from its grant until it is done.

mod leased;
pub(crate) mod renewal;
mod ticket;

use std::fmt;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tokio::task::AbortHandle;
use tollway_core::{
    Action, Answer, Begun, Booking, Charge, ChargeStatus, Cost, Decision, Outcome, PermitId, Policy, Settled,
    Span, StoreResult, TakeOutcome, Terms, Timestamp,
};

use crate::background::finish_in_background;
use crate::incident::recent_grants::HeldPermit;
use crate::permit::renewal::keep_slots;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::next_permit;
use crate::take::pending_take::wrong_answer;
use crate::{Denied, TakeError};

pub use ticket::{Ticket, TicketBegun, TicketCharge};

/// How long a call of an outbound api may start without asking the store whether the vendor holds calls back.
const HOLD_UNKNOWN_MAX: Span = Span::from_millis(100);

/// How far ahead a permit under a rate takes again.
const AGAIN_UNDER_RATE_MAX: Span = Span::from_secs(1);

/// A granted take.
///
/// Call [`begin`](Permit::begin) just before the call goes out if the vendor counts by its own clock;
/// [`settle`](Permit::settle) if the actual cost differs; [`give_back`](Permit::give_back) if the call was never made.
/// Dropping it means the call is done: slots are freed, units stay spent.
#[must_use = "dropping a permit means that the call is done"]
pub struct Permit {
    charges: BoundCharges,
    /// As the take was answered.
    decision: Decision,
    /// In the store's time, as the store needs it back; a late begin changes it.
    booking: Booking,
    /// Whether nothing is booked in the store: it was decided without the store, or has only shadow policies.
    unbooked: bool,
    /// Whether the store must remember refunds, because the take had an id and the permit may exist twice.
    remember: bool,
    /// Whether a lease paid for it: its booking is then unknown to the store.
    leased: bool,
    /// Whether dropping it has nothing left to do: it holds no slots, or they are freed.
    over: bool,
    /// When it may begin, by the limiter's clock, and when it expires, by the clock of expiry; `None`: as the booking says.
    local: Option<(Timestamp, Timestamp)>,
    /// When the store was last asked about it, by the local clock.
    asked_at: Timestamp,
    /// Keeps the slots of a long call.
    renewal: Renewal,
    /// Its entry among the recent grants of an api.
    held: Option<HeldPermit>,
}

/// The task that renews slots; ends with the permit.
#[derive(Default)]
struct Renewal(Option<AbortHandle>);

impl Renewal {
    fn replace(&mut self, task: Option<AbortHandle>) {
        if let Some(old) = std::mem::replace(&mut self.0, task) {
            old.abort();
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl Permit {
    /// The permit of a take that went the fast path, in memory or from a lease: no slots, no shadows, the store's time is
    /// ours.
    pub(crate) fn fast(charges: BoundCharges, decision: Decision, booking: Booking, leased: bool) -> Self {
        Self {
            charges,
            booking,
            unbooked: false,
            remember: false,
            leased,
            over: true,
            // What a lease paid for is due at once.
            local: leased.then_some((Timestamp::EPOCH, booking.good_until)),
            asked_at: decision.now,
            renewal: Renewal::default(),
            held: None,
            decision,
        }
    }

    /// Whether the store must remember refunds of it.
    pub(crate) fn remembering_refunds(mut self, remember: bool) -> Self {
        self.remember = remember;
        self
    }

    /// The permit of a take that was paid from a lease.
    pub(crate) fn leased(charges: BoundCharges, booking: Booking) -> Self {
        let decision = Decision::new(booking.granted_at, TakeOutcome::Granted(booking));
        Self::fast(charges, decision, booking, true).recorded()
    }

    pub(crate) fn with_readings(mut self, charges: SmallVec<[ChargeStatus; 1]>) -> Self {
        self.decision.charges = charges;
        self
    }

    pub(crate) fn new(
        mut charges: BoundCharges,
        decision: Decision,
        sent_at: Option<Timestamp>,
        remember: bool,
    ) -> Self {
        charges.count_anomalies(&decision);
        let nothing = decision.would_deny != 0 && charges.drop_denied_shadows(&decision);
        let over = nothing || !charges.holds_slots();
        let booking = booking_of(&decision);
        let local = sent_at.map(|sent_at| local_times(&charges, &decision, sent_at));
        let unbooked = decision.degraded || nothing;
        let mut permit = Self::fast(charges, decision, booking, false).recorded();
        (permit.unbooked, permit.remember, permit.over, permit.local) = (unbooked, remember, over, local);
        permit.asked_at = sent_at.unwrap_or(permit.asked_at);
        if !over {
            permit.keep_slots();
        }
        permit
    }

    /// Adds it to the recent grants of its api policies.
    pub(crate) fn recorded(mut self) -> Self {
        self.held = HeldPermit::note(&self.charges, &self.booking);
        self
    }

    pub(crate) fn charges(&self) -> &BoundCharges {
        &self.charges
    }

    pub(crate) fn count(&self) {
        // A repeated id took nothing this time.
        if self.decision.repeated {
            return;
        }
        for (charge, bound) in self.charges.iter() {
            if let Some(counts) = bound.counts() {
                counts.granted(charge.subject.as_str(), charge.cost());
            }
        }
    }

    #[cold]
    fn keep_slots(&mut self) {
        let task = keep_slots(&self.charges, self.booking.permit, self.unbooked);
        self.renewal.replace(task);
    }

    /// When it may begin, by the limiter's clock, and when it expires, by the clock of expiry.
    fn times(&self) -> (Timestamp, Timestamp) {
        self.local.unwrap_or((self.booking.at, self.booking.good_until))
    }

    /// Its id, unique among all processes that share the store.
    pub fn id(&self) -> PermitId {
        self.booking.permit
    }

    /// When it was granted, in the store's time; of a permit that took again, the last time.
    pub fn granted_at(&self) -> Timestamp {
        self.booking.granted_at
    }

    /// When it expires, by the store's clock, or by the local one if a lease paid for it; none if it does not expire.
    pub fn good_until(&self) -> Option<Timestamp> {
        Some(self.booking.good_until).filter(|end| *end < Timestamp::MAX)
    }

    /// The decision in full: when it was made, what every limit showed if the take asked for it, what shadows would have
    /// denied.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.decision.degraded
    }

    /// Whether a shadow policy would have denied it.
    pub fn would_deny(&self) -> bool {
        self.decision.would_deny != 0
    }

    /// Makes sure that the call may go out now; free while the permit is good. If the permit's window is over, it takes
    /// again at the back of the queue, and the first cost stays spent.
    ///
    /// A permit of an outbound api is good for 100 ms after the store was last asked: the vendor may have refused another
    /// process's call since, which holds everybody's. Under a rate that was cut since, it takes again within the next
    /// second, or fails with [`TakeError::Denied`]: a place further ahead would hold up all others if the rate rises.
    pub async fn begin(&mut self) -> Result<(), TakeError> {
        loop {
            let state = self.charges.state().clone();
            let (due, good_until) = self.times();
            state.timers.sleep_until(&*state.clock, due).await?;
            let now = state.clock.now();
            let good = state.expiry_clock().now() < good_until && !self.may_be_held(now);
            let may_begin = match (self.unbooked, self.held.is_some()) {
                (true, false) => true,
                // Decided without the store: what this process knows of the vendor's holds applies.
                (true, true) => self.begin_without_store().await?,
                (false, _) => good || self.begin_late().await?,
            };
            if may_begin {
                return Ok(());
            }
        }
    }

    /// Whether a vendor's hold may have come since the store was last asked.
    fn may_be_held(&self, now: Timestamp) -> bool {
        self.held.is_some() && now.since(self.asked_at) >= HOLD_UNKNOWN_MAX
    }

    /// The permit expired by the local clock, or may be held: the store decides whether the call may still go out, or takes again. True
    /// if it may; otherwise the permit has new times.
    async fn begin_late(&mut self) -> Result<bool, TakeError> {
        let state = self.charges.state().clone();
        // An operator may have stopped the policy.
        self.charges.follow_reload();
        let now = state.clock.now();
        let sent_at = if state.in_process() { None } else { Some(now) };
        self.asked_at = now;
        let mut limits = self.charges.charges().iter().flat_map(|charge| charge.policy.limits());
        let max_wait = if limits.any(|limit| limit.is_adaptive()) { AGAIN_UNDER_RATE_MAX } else { Span::MAX };
        let terms = Terms { max_wait, ..Terms::now(next_permit()) };
        let booking = match self.leased {
            // The lease has ended; the store can only take again.
            true => Booking { at: Timestamp::EPOCH, good_until: Timestamp::EPOCH, ..self.booking },
            false => self.booking,
        };
        let answer = one(self.charges.send(Action::Begin(booking, terms)).await);
        if let Err(TakeError::Store(_)) = answer
            && state.expiry_clock().now() < self.times().1
            && state.fallback.decides(self.charges.charges())
        {
            return self.begin_without_store().await;
        }
        match answer? {
            Outcome::Begun(Begun::Now) => Ok(true),
            Outcome::Begun(Begun::Early(delay)) => {
                let due = state.clock.now().plus(delay);
                state.timers.sleep_until(&*state.clock, due).await?;
                Ok(false)
            }
            Outcome::Begun(Begun::Again(decision)) if decision.is_granted() => {
                self.taken_again(&decision, sent_at);
                Ok(false)
            }
            Outcome::Begun(Begun::Again(decision)) => Err(Denied::new(&self.charges, decision).into()),
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// The store has granted it, and cannot say whether the vendor holds calls back since: what this process knows applies.
    /// True if the call may go out.
    async fn begin_without_store(&self) -> Result<bool, TakeError> {
        let state = self.charges.state();
        let Some(until) = state.fallback.held_until(self.charges.charges()) else { return Ok(true) };
        state.timers.sleep_until(&*state.clock, until).await?;
        Ok(false)
    }

    fn taken_again(&mut self, decision: &Decision, sent_at: Option<Timestamp>) {
        self.unbooked = decision.would_deny != 0 && self.charges.drop_denied_shadows(decision);
        self.booking = booking_of(decision);
        self.leased = false;
        self.local = sent_at.map(|sent_at| local_times(&self.charges, decision, sent_at));
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
        let answer = self.charges.send(Action::Settle { booking, actual, remember });
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
            self.charges.state().fallback.done(self.charges.charges(), self.booking.permit);
        } else {
            one(self.charges.send(Action::Done(self.booking.permit)).await)?;
        }
        self.charges.state().queues.notify(self.charges.charges());
        Ok(())
    }

    /// [`begin`](Permit::begin) on a thread without a runtime.
    pub fn begin_blocking(&mut self) -> Result<(), TakeError> {
        let state = self.charges.state().clone();
        state.timers.block_on(self.begin())?
    }

    /// [`settle`](Permit::settle) on a thread without a runtime.
    pub fn settle_blocking(self, unit: &str, actual: u64) -> Result<Settled, TakeError> {
        let state = self.charges.state().clone();
        state.timers.block_on(self.settle(unit, actual))?
    }

    /// [`give_back`](Permit::give_back) on a thread without a runtime.
    pub fn give_back_blocking(self) -> Result<Settled, TakeError> {
        let state = self.charges.state().clone();
        state.timers.block_on(self.give_back())?
    }

    /// [`done`](Permit::done) on a thread without a runtime.
    pub fn done_blocking(self) -> Result<(), TakeError> {
        let state = self.charges.state().clone();
        state.timers.block_on(self.done())?
    }

    /// Waits until the time of a [booked](crate::Take::book) permit. Dropping the future before that gives the permit back.
    pub async fn until_due(self) -> Result<Self, TakeError> {
        let pending = self.into_pending();
        pending.due().await?;
        pending.into_permit()
    }

    /// Marks it as not yet due: dropping it then returns it.
    pub(crate) fn into_pending(self) -> PendingPermit {
        PendingPermit(Some(self))
    }

    fn actual_costs(&self, amounts: &[(&str, u64)]) -> Result<SmallVec<[Cost; 1]>, TakeError> {
        let counts = |policy: &Policy, unit: &str| policy.units().iter().any(|known| known.as_str() == unit);
        let charges = self.charges.charges();
        let known = |unit: &str| charges.iter().any(|charge| counts(&charge.policy, unit));
        let actual = |charge: &Charge| {
            let named =
                amounts.iter().copied().filter(|(unit, _)| counts(&charge.policy, unit) || !known(unit));
            charge.policy.actual_cost(charge.cost(), named).map_err(TakeError::from)
        };
        charges.iter().map(actual).collect()
    }

    /// Settling also frees the slots; if it did not, dropping the permit does.
    async fn settled(&mut self, answer: Answer) -> Result<Settled, TakeError> {
        match one(answer.await)? {
            Outcome::Settled(settled) => {
                self.over |= settled != Settled::Dropped;
                self.count_lost(settled);
                self.charges.state().queues.notify(self.charges.charges());
                Ok(settled)
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    fn count_lost(&self, settled: Settled) {
        if matches!(settled, Settled::Partly | Settled::Dropped) {
            self.charges.state().permits_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send_return(&mut self) -> Answer {
        let (booking, remember) = (self.booking, self.remember);
        self.charges.send(Action::Return { booking, remember })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match (self.over, self.unbooked) {
            (true, _) => {}
            (false, true) => {
                self.charges.state().fallback.done(self.charges.charges(), self.booking.permit);
                self.charges.state().queues.notify(self.charges.charges());
            }
            (false, false) => {
                let answer = self.charges.send(Action::Done(self.booking.permit));
                finish_in_background(&self.charges, answer);
            }
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let charges = self.charges.charges().iter();
        let policies: Vec<&str> = charges.map(|charge| charge.policy.name().as_str()).collect();
        f.debug_struct("Permit")
            .field("policies", &policies)
            .field("booking", &self.booking)
            .finish_non_exhaustive()
    }
}

/// A permit that is not yet due. Dropping it returns the permit.
pub(crate) struct PendingPermit(Option<Permit>);

impl PendingPermit {
    pub(crate) async fn due(&self) -> Result<(), TakeError> {
        match &self.0 {
            Some(permit) => {
                let state = permit.charges.state();
                state.timers.sleep_until(&*state.clock, permit.times().0).await
            }
            None => Ok(()),
        }
    }

    pub(crate) fn into_permit(mut self) -> Result<Permit, TakeError> {
        self.0.take().ok_or_else(|| wrong_answer().into())
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        // A booking under an id is kept: repeating the take with the id gets the same booking.
        if let Some(mut permit) = self.0.take()
            && !permit.unbooked
            && !permit.remember
        {
            permit.over = true;
            let answer = permit.send_return();
            finish_in_background(&permit.charges, answer);
        }
    }
}

/// The booking of a granted take.
fn booking_of(decision: &Decision) -> Booking {
    let nothing =
        Booking { permit: PermitId(0), granted_at: decision.now, at: decision.now, good_until: decision.now };
    decision.booking().copied().unwrap_or(nothing)
}

/// When it may begin, counted from the answer, and when it expires, counted from before the request.
fn local_times(charges: &BoundCharges, decision: &Decision, sent_at: Timestamp) -> (Timestamp, Timestamp) {
    let state = charges.state();
    let due = state.clock.now().plus(decision.wait());
    (due, state.expiry(decision, booking_of(decision).good_until, sent_at))
}

fn one(result: StoreResult) -> Result<Outcome, TakeError> {
    result?.into_iter().next().ok_or_else(|| wrong_answer().into())
}
