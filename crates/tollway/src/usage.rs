//! Looking at meters, and making them new.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use tollway_core::{Answer, Name, Outcome, Reading, Span, Subject, Timestamp, Verb};

use crate::TakeError;
use crate::bound::{Ask, Asks};
use crate::request::wrong_answer;

/// What a policy's meters show for one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// One per limit, in the policy's order.
    pub limits: Vec<LimitUsage>,
}

/// What one meter shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit's name.
    pub name: Name,
    /// What it counts.
    pub unit: Name,
    /// The amount per period in force.
    pub amount: u64,
    /// The most that fits at once: the burst of a bucket, else the amount.
    pub capacity: u64,
    /// What is used.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When it is whole again, in the store's time.
    pub resets_at: Timestamp,
    /// How long until then, from `as_of` on.
    pub resets_in: Span,
    /// What the reading is as of: now, or the place up to which others have booked.
    pub as_of: Timestamp,
}

/// A question about one line.
#[must_use = "a question does nothing until it is awaited"]
pub struct Inquiry<T> {
    ask: Result<Ask, TakeError>,
    verb: Verb<'static>,
    read: fn(Ask, Outcome) -> Result<T, TakeError>,
}

impl<T> Inquiry<T> {
    /// For whom; without it, the policy's one shared subject.
    pub fn subject(mut self, subject: &str) -> Self {
        if let Ok(ask) = &mut self.ask {
            match Subject::new(subject) {
                Ok(subject) => ask.subject = subject,
                Err(error) => self.ask = Err(error.into()),
            }
        }
        self
    }

    /// Asks on this thread, which must not belong to an async runtime unless the store is in process.
    pub fn now(self) -> Result<T, TakeError> {
        let ask = self.ask?;
        let asks = Asks::One(ask.clone());
        asks.shared().may_block()?;
        let result = match asks.send(self.verb) {
            Answer::Now(Some(result)) => result,
            later => asks.shared().timers.block_on(later)?,
        };
        (self.read)(ask, result?.into_iter().next().ok_or_else(wrong_answer)?)
    }
}

impl<T: 'static> IntoFuture for Inquiry<T> {
    type Output = Result<T, TakeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ask, verb, read } = self;
        Box::pin(async move {
            let ask = ask?;
            let outcomes = Asks::One(ask.clone()).send(verb).await?;
            read(ask, outcomes.into_iter().next().ok_or_else(wrong_answer)?)
        })
    }
}

pub(crate) fn usage(ask: Result<Ask, TakeError>) -> Inquiry<Usage> {
    Inquiry { ask, verb: Verb::Peek, read: read_usage }
}

pub(crate) fn reset(ask: Result<Ask, TakeError>) -> Inquiry<()> {
    Inquiry { ask, verb: Verb::Reset, read: read_reset }
}

fn read_usage(ask: Ask, outcome: Outcome) -> Result<Usage, TakeError> {
    let Outcome::Peeked(readings) = outcome else { return Err(wrong_answer().into()) };
    let limits = ask.bound.policy.limits().iter().zip(readings);
    let show = |(limit, reading): (&tollway_core::Limit, Reading)| LimitUsage {
        name: limit.name().clone(),
        unit: limit.unit().clone(),
        amount: limit.amount(),
        capacity: reading.capacity,
        used: reading.used,
        remaining: reading.remaining,
        resets_at: reading.resets_at,
        resets_in: reading.resets_at.since(reading.as_of),
        as_of: reading.as_of,
    };
    Ok(Usage { limits: limits.map(show).collect() })
}

fn read_reset(ask: Ask, outcome: Outcome) -> Result<(), TakeError> {
    match outcome {
        Outcome::Reset => {
            ask.bound.shared.queues.notify(std::slice::from_ref(&ask));
            Ok(())
        }
        Outcome::Refused(refusal) => Err(refusal.into()),
        _ => Err(wrong_answer().into()),
    }
}
