//! A permit as data: handed out by one process, and gone on with by any that shares the store.

use std::sync::Arc;
use std::time::Duration;

use tollway_core::{
    Begun, Booking, Cost, Decision, Name, Outcome, Settled, Span, Subject, Terms, Timestamp, Verb,
};

use super::{Permit, one};
use crate::bound::{Ask, Asks, next_permit};
use crate::request::wrong_answer;
use crate::{Denied, Limiter, TakeError};

/// A permit as data. Whoever has it may begin, settle, return, renew or end the permit, in any process that shares the
/// store and knows its policies; nobody does so in the meantime, so its slots expire unless they are renewed.
///
/// It is not signed: whoever hands it to a stranger must make sure that it comes back as it was.
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
    /// What was taken: at least one.
    pub parties: Vec<TicketParty>,
}

/// What a ticket's permit took under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketParty {
    /// The policy.
    pub policy: Name,
    /// Whom it counts for.
    pub subject: Subject,
    /// What was taken of each unit.
    pub cost: Vec<(Name, u64)>,
}

/// What came of beginning with a ticket.
#[derive(Debug)]
pub enum TicketBegun {
    /// The call may go out.
    Now,
    /// Its time has not come: wait this long, and begin again.
    Early(Duration),
    /// It came too late and has taken again; this ticket stands for both.
    Again {
        /// The permit from now on.
        ticket: Ticket,
        /// How long until its time.
        delay: Duration,
    },
    /// It came too late, and there is no room any more.
    Denied(Denied),
}

impl Permit {
    /// Hands the permit out as data. It goes on without us: slots stay held until they expire.
    pub fn into_ticket(mut self) -> Ticket {
        self.over = true;
        if let Some(renewal) = self.more.as_mut().and_then(|more| more.renewal.take()) {
            renewal.abort();
        }
        let party = |ask: &Ask| {
            let units = ask.bound.policy.units().iter().cloned();
            let cost = units.zip(ask.cost().amounts().iter().copied()).collect();
            TicketParty { policy: ask.bound.policy.name().clone(), subject: ask.subject.clone(), cost }
        };
        let parties = self.asks.iter().map(party).collect();
        Ticket { booking: self.booking, unbooked: self.unbooked, leased: self.leased, parties }
    }

    /// How long until its time.
    pub fn delay(&self) -> Duration {
        let (due, _) = self.times();
        due.since(self.asks.shared().clock.now()).into()
    }

    /// When it was granted, by the clock of its readings.
    pub fn granted_at(&self) -> Timestamp {
        self.booking.granted_at
    }
}

impl Ticket {
    /// Makes sure that the call may go out now, as [`Permit::begin`] does, but says how long to wait instead of waiting.
    pub async fn begin(&self, limiter: &Limiter) -> Result<TicketBegun, TakeError> {
        let asks = self.asks(limiter)?;
        let shared = asks.shared().clone();
        // A lease ends by the clock of whoever held it; the store knows nothing of it and can only take again.
        let good = self.leased && shared.clock.now() < self.booking.good_until;
        if self.unbooked || good {
            return Ok(TicketBegun::Now);
        }
        let booking = match self.leased {
            true => Booking { at: Timestamp::EPOCH, good_until: Timestamp::EPOCH, ..self.booking },
            false => self.booking,
        };
        let terms = Terms { permit: next_permit(), max_wait: Span::MAX, call: None, readings: false };
        match one(asks.send(Verb::Begin(booking, terms)).await)? {
            Outcome::Begun(Begun::Now) => Ok(TicketBegun::Now),
            Outcome::Begun(Begun::Early(delay)) => Ok(TicketBegun::Early(delay.into())),
            Outcome::Begun(Begun::Again(Decision::Granted(grant))) => {
                let delay = grant.delay().into();
                let ticket = Permit::new(asks, grant, None, true, false).into_ticket();
                Ok(TicketBegun::Again { ticket, delay })
            }
            Outcome::Begun(Begun::Again(Decision::Denied(denial))) => {
                let bound = asks.get(denial.party).unwrap_or(asks.first()).bound.clone();
                Ok(TicketBegun::Denied(Denied { bound, denial, degraded: false }))
            }
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// The call is over and took these amounts; counts once, however often it is said.
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
        let asks = self.asks(limiter)?;
        if self.unbooked {
            return Ok(asks.shared().fallback.renew(&asks, self.booking.permit));
        }
        match one(asks.send(Verb::Renew(self.booking.permit)).await)? {
            Outcome::Renewed(held) => Ok(held),
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// The permit, to be ended: others may hold the same ticket, so that refunds are remembered.
    fn permit(&self, limiter: &Limiter) -> Result<Permit, TakeError> {
        let asks = self.asks(limiter)?;
        let over = !asks.iter().any(|ask| ask.bound.policy.holds_slots());
        let (booking, unbooked, leased) = (self.booking, self.unbooked, self.leased);
        Ok(Permit { asks, booking, unbooked, remember: true, leased, over, more: None, _held: None })
    }

    /// Its policies as they are in force. What they no longer count is no longer theirs to give back.
    fn asks(&self, limiter: &Limiter) -> Result<Asks, TakeError> {
        let ask = |party: &TicketParty| {
            let bound = limiter.find(party.policy.as_str())?;
            let policy = Arc::clone(&bound.policy);
            let known = party.cost.iter().filter(|(unit, _)| policy.units().contains(unit));
            let cost: Cost = policy.cost(known.map(|(unit, amount)| (unit.as_str(), *amount)))?;
            Ok(Ask { bound, subject: party.subject.clone(), cost: Some(cost) })
        };
        let mut asks = self.parties.iter().map(ask).collect::<Result<Vec<_>, TakeError>>()?.into_iter();
        let first = asks.next().ok_or(tollway_core::Refusal::PartyCount(0))?;
        Ok(Asks::new(first, asks.collect()))
    }
}
