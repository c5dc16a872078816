//! One policy on trial: the engine, and a tally of its answers.

use std::sync::Arc;

use tollway::core::{
    Answer, Cost, Decision, Grant, Operation, Outcome, Party, PermitId, REQUESTS, Reading, Refusal, Terms,
    Verb,
};
use tollway::{Limit, Policy, Span, Store, Subject, Timestamp};
use tollway_memory::{LINES_DEFAULT, MemoryStore};

use super::clock::LogClock;
use super::{Call, Ranking, Spread, Timeline};
use crate::failure::{Exit, Failure};

/// A policy to be tried, and what people call it.
#[derive(Clone, Debug)]
pub(crate) struct TrialPolicy {
    pub(crate) title: String,
    pub(crate) policy: Policy,
}

/// One policy on trial.
pub(crate) struct Trial {
    pub(crate) title: String,
    pub(crate) policy: Policy,
    store: MemoryStore,
    /// Which of a call's amounts count here, with their units.
    amounts: Vec<(usize, String)>,
    max_wait: Span,
    permits: u128,
    pub(crate) tally: Tally,
}

/// What came of the calls so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) granted: u64,
    pub(crate) denied: u64,
    /// How many of the denied cost more than a limit could ever grant.
    pub(crate) never: u64,
    /// How long the granted ones that had to wait did so.
    pub(crate) waits: Spread,
    /// How long until the denied ones would have fitted.
    pub(crate) fits_after: Spread,
    pub(crate) by_denials: Ranking,
    pub(crate) timeline: Timeline,
    /// For each limit, the most that was used of it.
    peaks: Vec<Peak>,
    /// For each limit, how many calls it denied.
    denied_by: Vec<u64>,
}

/// The most that was used of a limit, by whom and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Peak {
    pub(crate) used: u64,
    pub(crate) at: Timestamp,
    pub(crate) subject: Subject,
}

/// What came of one limit.
pub(crate) struct LimitTally<'t> {
    pub(crate) limit: &'t Limit,
    pub(crate) peak: &'t Peak,
    /// How many calls it denied.
    pub(crate) denied: u64,
}

impl Trial {
    /// `count` trials share the room for meters.
    pub(super) fn new(
        TrialPolicy { title, policy }: TrialPolicy,
        units: &[String],
        max_wait: Span,
        count: usize,
        clock: Arc<LogClock>,
    ) -> Self {
        let counts = |unit: &String| policy.units().iter().any(|known| known.as_str() == unit);
        let amounts = units.iter().enumerate().filter(|(_, unit)| counts(unit));
        let limits = policy.limits().len();
        Self {
            title,
            store: MemoryStore::with_capacity(LINES_DEFAULT / count.max(1), clock),
            amounts: amounts.map(|(index, unit)| (index, unit.clone())).collect(),
            max_wait,
            permits: 0,
            tally: Tally {
                peaks: vec![Peak::default(); limits],
                denied_by: vec![0; limits],
                ..Tally::default()
            },
            policy,
        }
    }

    /// Whether calls say how many requests they are.
    pub(crate) fn charges_requests_otherwise(&self) -> bool {
        self.amounts.iter().any(|(_, unit)| unit == REQUESTS)
    }

    /// What came of each limit, in order.
    pub(crate) fn limits(&self) -> impl Iterator<Item = LimitTally<'_>> {
        let parts = self.policy.limits().iter().zip(&self.tally.peaks).zip(&self.tally.denied_by);
        parts.map(|((limit, peak), denied)| LimitTally { limit, peak, denied: *denied })
    }

    /// What came of the limit of this name, if there is one.
    pub(crate) fn of_limit(&self, name: &str) -> Option<LimitTally<'_>> {
        self.limits().find(|tally| tally.limit.name().as_str() == name)
    }

    /// How many takes had to share a meter, because there were more subjects than meters.
    pub(crate) fn shared_meters(&self) -> u64 {
        self.store.stats().overflowed
    }

    pub(super) fn take(&mut self, call: &Call) -> Result<(), Failure> {
        let cost = self.cost(call)?;
        let party = Party {
            policy: &self.policy,
            subject: &call.subject,
            cost: cost.as_ref().unwrap_or(self.policy.default_cost()),
        };
        self.permits += 1;
        // Once every limit was used up, no reading can tell anything new, and the engine is faster without.
        let readings = !self.tally.peaks_are_full(&self.policy);
        let terms = Terms { permit: PermitId(self.permits), max_wait: self.max_wait, call: None, readings };
        let operation = Operation { parties: &[party], verb: Verb::Take(terms) };
        match outcome_of(&self.store, operation)? {
            Outcome::Decided(Decision::Granted(grant)) => self.tally.grant(call, &grant),
            Outcome::Decided(Decision::Denied(denial)) => {
                self.tally.deny(call, Some(denial.limit));
                self.tally.fits_after.add(denial.retry_after());
            }
            Outcome::Refused(Refusal::AboveLimit { limit, .. }) => {
                self.tally.never += 1;
                let index = self.policy.limits().iter().position(|known| *known.name() == limit);
                self.tally.deny(call, index);
            }
            other => return Err(Failure::new(Exit::FAILED, format!("a take was answered with {other:?}"))),
        }
        Ok(())
    }

    /// Nothing where calls carry no amounts that count here.
    fn cost(&self, call: &Call) -> Result<Option<Cost>, Failure> {
        if self.amounts.is_empty() {
            return Ok(None);
        }
        let amounts =
            self.amounts.iter().filter_map(|(index, unit)| Some((unit.as_str(), *call.amounts.get(*index)?)));
        self.policy.cost(amounts).map(Some).map_err(Failure::usage)
    }
}

impl Tally {
    fn grant(&mut self, call: &Call, grant: &Grant) {
        self.granted += 1;
        if grant.delay() > Span::ZERO {
            self.waits.add(grant.delay());
        }
        // A call that waited begins when its turn comes.
        self.timeline.granted(call.time.plus(grant.delay()));
        for (peak, reading) in self.peaks.iter_mut().zip(&grant.readings) {
            peak.raise(reading, &call.subject);
        }
    }

    fn deny(&mut self, call: &Call, limit: Option<usize>) {
        self.denied += 1;
        self.timeline.denied(call.time);
        self.by_denials.add(&call.subject);
        if let Some(count) = limit.and_then(|limit| self.denied_by.get_mut(limit)) {
            *count += 1;
        }
    }

    fn peaks_are_full(&self, policy: &Policy) -> bool {
        self.peaks.iter().zip(policy.limits()).all(|(peak, limit)| peak.used >= limit.capacity())
    }
}

impl Peak {
    fn raise(&mut self, reading: &Reading, subject: &Subject) {
        if reading.used > self.used {
            *self = Self { used: reading.used, at: reading.as_of, subject: subject.clone() };
        }
    }
}

/// A memory store answers at once.
fn outcome_of(store: &MemoryStore, operation: Operation<'_>) -> Result<Outcome, Failure> {
    let Answer::Now(Some(answer)) = store.apply(&[operation]) else {
        return Err(Failure::new(Exit::FAILED, "the store in memory did not answer at once"));
    };
    let outcomes = answer.map_err(|error| Failure::new(Exit::STORE, error))?;
    outcomes
        .into_iter()
        .next()
        .ok_or_else(|| Failure::new(Exit::FAILED, "the store in memory did not answer"))
}
