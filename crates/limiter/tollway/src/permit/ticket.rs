//! A permit as data: taken by one process, continued by any process that shares the store.

use std::sync::Arc;
use std::time::Duration;

use tollway_core::{
    Action, Begun, Booking, Charge, Decision, Name, Outcome, Refusal, Settled, Span, Subject, TakeOutcome,
    Terms, Timestamp,
};

use super::{Permit, one};
use crate::metrics::WaitingCaller;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, next_permit};
use crate::take::pending_take::wrong_answer;
use crate::{Denied, Limiter, TakeError};

/// A permit as data. Any process that shares the store and has its policies can begin, settle, return, renew or end it.
/// Nothing renews it in the background, so its slots expire unless the holder renews them.
///
/// It is not signed: sign it before you pass it through an untrusted client.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let limiter = tollway::Limiter::builder().policy("gemini", ["250k tokens / minute"])?.build();
/// let permit = limiter.take("gemini").cost("tokens", 3_750).await?;
/// let ticket = permit.into_ticket();
/// ticket.settle(&limiter, [("tokens", 3_120)]).await?;
/// assert_eq!(limiter.usage("gemini").await?.limits[0].used, 3_120);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What the store needs back.
    pub booking: Booking,
    /// Whether it was decided without the store, or nothing was taken.
    pub unbooked: bool,
    /// Whether it was paid from a lease.
    pub leased: bool,
    /// The count of grants of an api's rate, right after this one; 0 without a rate, or if it is not known.
    pub rate_grants: u64,
    /// What was taken: at least one.
    pub charges: Vec<TicketCharge>,
}

/// What a ticket's permit took under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketCharge {
    /// The policy.
    pub policy: Name,
    /// The subject.
    pub subject: Subject,
    /// What was taken of each unit.
    pub cost: Vec<(Name, u64)>,
}

/// The outcome of [`Ticket::begin`].
#[derive(Debug)]
pub enum TicketBegun {
    /// The call may go out.
    Now,
    /// Not yet due: wait this long, then begin again.
    Early(Duration),
    /// It had expired and was taken again; this ticket replaces the old one.
    Again {
        /// The permit from now on.
        ticket: Ticket,
        /// How long until its time.
        delay: Duration,
    },
    /// It had expired, and there is no room to take again.
    Denied(Denied),
}

impl Permit {
    /// Turns the permit into data. Its slots are no longer renewed and stay held until they expire.
    pub fn into_ticket(mut self) -> Ticket {
        self.over = true;
        self.renewal.replace(None);
        let ticket_charge = |charge: &Charge| {
            let units = charge.policy.units().iter().cloned();
            let cost = units.zip(charge.cost().amounts().iter().copied()).collect();
            TicketCharge { policy: charge.policy.name().clone(), subject: charge.subject.clone(), cost }
        };
        let charges = self.charges.charges().iter().map(ticket_charge).collect();
        let rate_grants = self.rate_grants();
        Ticket { booking: self.booking, unbooked: self.unbooked, leased: self.leased, rate_grants, charges }
    }

    /// The count of grants of its rate, right after this one; 0 without a rate, or if the take did not ask for readings.
    pub fn rate_grants(&self) -> u64 {
        let charges = self.charges.charges().iter().enumerate();
        let limits = charges
            .flat_map(|(index, charge)| charge.policy.limits().iter().zip(self.decision.readings_of(index)));
        limits.filter(|(limit, _)| limit.is_adaptive()).map(|(_, reading)| reading.grants).next().unwrap_or(0)
    }

    /// How long until its time.
    pub fn delay(&self) -> Duration {
        let (due, _) = self.times();
        due.since(self.charges.state().clock.now()).into()
    }

    /// Counts its caller as waiting until it is due, wherever the caller waits.
    pub(crate) fn count_booked(&self) {
        let bound = self.charges.waited_for();
        if let Some(counts) = bound.counts() {
            counts.waiting.booked(self.times().0, bound.state.clock.now());
        }
    }

    /// Its caller waits from now on, unless it is due.
    pub(crate) fn waiting_caller(&self) -> Option<WaitingCaller> {
        let (due, _) = self.times();
        (due > self.charges.state().clock.now())
            .then(|| WaitingCaller::new(self.charges.waited_for(), Some(due)))
    }
}

impl Ticket {
    /// Makes sure that the call may go out now, as [`Permit::begin`] does, but says how long to wait instead of waiting.
    pub async fn begin(&self, limiter: &Limiter) -> Result<TicketBegun, TakeError> {
        let mut charges = self.charges(limiter)?;
        let state = charges.state().clone();
        // A lease ends by its process's clock; the store does not know it and can only take again.
        let good = self.leased && state.expiry_clock().now() < self.booking.good_until;
        if self.unbooked || good {
            return Ok(TicketBegun::Now);
        }
        let booking = match self.leased {
            true => Booking { at: Timestamp::EPOCH, good_until: Timestamp::EPOCH, ..self.booking },
            false => self.booking,
        };
        let terms = Terms { max_wait: Span::MAX, ..Terms::now(next_permit()) };
        match one(charges.send(Action::Begin(booking, terms)).await)? {
            Outcome::Begun(Begun::Now) => Ok(TicketBegun::Now),
            Outcome::Begun(Begun::Early(delay)) => Ok(TicketBegun::Early(delay.into())),
            Outcome::Begun(Begun::Again(decision)) if decision.is_granted() => {
                let delay = decision.wait().into();
                let ticket = Permit::new(charges, decision, None, true).into_ticket();
                // A late begin has no readings. The earlier count is on the safe side.
                let ticket = Ticket { rate_grants: self.rate_grants, ..ticket };
                Ok(TicketBegun::Again { ticket, delay })
            }
            Outcome::Begun(Begun::Again(decision)) => {
                Ok(TicketBegun::Denied(Denied::new(&charges, decision)))
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// The call is over and took these amounts; repeating it has no further effect.
    pub async fn settle<'a>(
        &self,
        limiter: &Limiter,
        amounts: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Settled, TakeError> {
        self.permit(limiter)?.settle_all(amounts).await
    }

    /// The call was not made: gives the cost back, as far as that can still be done; counts once.
    pub async fn give_back(&self, limiter: &Limiter) -> Result<Settled, TakeError> {
        self.permit(limiter)?.give_back().await
    }

    /// The call is done: frees its slots.
    pub async fn done(&self, limiter: &Limiter) -> Result<(), TakeError> {
        self.permit(limiter)?.done().await
    }

    /// The call goes on: keeps its slots. Answers whether it still had all of them.
    pub async fn renew(&self, limiter: &Limiter) -> Result<bool, TakeError> {
        let mut charges = self.charges(limiter)?;
        if self.unbooked {
            return Ok(charges.state().fallback.renew(charges.charges(), self.booking.permit));
        }
        match one(charges.send(Action::Renew(self.booking.permit)).await)? {
            Outcome::Renewed(held) => Ok(held),
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// The permit again. The ticket may exist twice, so the store remembers refunds. Dropping the permit frees its slots,
    /// which [`into_ticket`](Permit::into_ticket) does not.
    pub fn permit(&self, limiter: &Limiter) -> Result<Permit, TakeError> {
        let charges = self.charges(limiter)?;
        let over = !charges.holds_slots();
        let (booking, unbooked, leased) = (self.booking, self.unbooked, self.leased);
        let decision = Decision::new(booking.granted_at, TakeOutcome::Granted(booking));
        let mut permit = Permit::fast(charges, decision, booking, leased);
        (permit.unbooked, permit.remember, permit.over) = (unbooked, true, over);
        Ok(permit)
    }

    /// Its charges under the policies in force; units that a policy no longer counts are dropped.
    fn charges(&self, limiter: &Limiter) -> Result<BoundCharges, TakeError> {
        let bind = |charge: &TicketCharge| -> Result<(Charge, Arc<BoundPolicy>), TakeError> {
            let bound = limiter.find(charge.policy.as_str())?;
            let policy = Arc::clone(&bound.policy);
            let known = charge.cost.iter().filter(|(unit, _)| policy.units().contains(unit));
            let cost = policy.cost(known.map(|(unit, amount)| (unit.as_str(), *amount)))?;
            Ok((Charge::new(policy, charge.subject.clone()).with_cost(cost), bound))
        };
        let mut bound = self.charges.iter().map(bind);
        let (first, bound_first) = bound.next().ok_or(Refusal::ChargeCount(0))??;
        let mut charges = BoundCharges::one(bound_first, first.subject, first.cost);
        for next in bound {
            let (charge, bound) = next?;
            charges.push(charge, bound);
        }
        Ok(charges)
    }
}
