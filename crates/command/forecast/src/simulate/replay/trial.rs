//! One trial policy, and the counted results.

use std::sync::Arc;

use tollway_core::{Cost, Limit, Policy, REQUESTS, Reading, Span, Subject, Timestamp};

use super::engine::{CallResult, Engine, LogClock};
use super::{CallDecision, Ranking, Spread, Timeline};
use crate::simulate::error::SimulateError;
use crate::simulate::log::LoggedCall;
use crate::simulate::trial_policy::TrialPolicy;

/// One trial policy.
pub struct Trial {
    /// Its title.
    pub title: String,
    /// The policy.
    pub policy: Arc<Policy>,
    /// The results.
    pub counts: TrialCounts,
    engine: Engine,
    /// Which amounts of a call count here, with their units.
    amounts: Vec<(usize, String)>,
}

/// The results of one policy.
#[derive(Debug, Default)]
pub struct TrialCounts {
    /// Granted calls.
    pub granted: u64,
    /// Denied calls.
    pub denied: u64,
    /// The denied calls that cost more than a limit ever grants.
    pub never: u64,
    /// The waits of granted calls that had to wait.
    pub waits: Spread,
    /// How long denied calls would have had to wait.
    pub fits_after: Spread,
    /// How often each subject was denied.
    pub by_denials: Ranking,
    /// Grants and denials over time.
    pub timeline: Timeline,
    /// For each limit, its highest usage.
    peaks: Vec<Peak>,
    /// For each limit, how many calls it denied.
    denied_by: Vec<u64>,
}

/// The highest usage of a limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peak {
    /// How much was used.
    pub used: u64,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub subject: Subject,
}

/// The results of one limit.
pub struct LimitCounts<'t> {
    /// The limit.
    pub limit: &'t Limit,
    /// Its highest usage.
    pub peak: &'t Peak,
    /// How many calls it denied.
    pub denied: u64,
}

impl Trial {
    /// `count` trials share the room for accounts.
    pub(super) fn new(
        TrialPolicy { title, policy, .. }: TrialPolicy,
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
            engine: Engine::new(max_wait, count, clock),
            amounts: amounts.map(|(index, unit)| (index, unit.clone())).collect(),
            counts: TrialCounts {
                peaks: vec![Peak::default(); limits],
                denied_by: vec![0; limits],
                ..TrialCounts::default()
            },
            policy: Arc::new(policy),
        }
    }

    /// Whether calls carry an amount of requests, instead of counting as one each.
    pub fn carries_request_amounts(&self) -> bool {
        self.amounts.iter().any(|(_, unit)| unit == REQUESTS)
    }

    /// The results of each limit, in order.
    pub fn limits(&self) -> impl Iterator<Item = LimitCounts<'_>> {
        let parts = self.policy.limits().iter().zip(&self.counts.peaks).zip(&self.counts.denied_by);
        parts.map(|((limit, peak), denied)| LimitCounts { limit, peak, denied: *denied })
    }

    /// The results of the limit with this name.
    pub fn of_limit(&self, name: &str) -> Option<LimitCounts<'_>> {
        self.limits().find(|counts| counts.limit.name().as_str() == name)
    }

    /// How many calls shared an account, because there were more subjects than accounts.
    pub fn shared_accounts(&self) -> u64 {
        self.engine.shared_accounts()
    }

    /// Replays one call. Returns the title of the policy as well, because the trial stays borrowed.
    pub(super) fn take(&mut self, call: &LoggedCall) -> Result<(&str, CallDecision<'_>), SimulateError> {
        let cost = self.cost(call)?;
        let cost = cost.as_ref().unwrap_or(self.policy.default_cost());
        // Once every limit was fully used, readings add nothing, and the engine is faster without them.
        let readings = !self.counts.peaks_are_full(&self.policy);
        let decision = match self.engine.take(&self.policy, &call.subject, cost, readings)? {
            CallResult::Granted { wait, readings } => {
                self.counts.grant(call, wait, &readings);
                CallDecision::Granted { wait }
            }
            CallResult::Denied { limit, fits_after } => {
                self.counts.deny(call, Some(limit));
                self.counts.fits_after.add(fits_after);
                CallDecision::Denied { limit: self.policy.limits().get(limit), fits_after: Some(fits_after) }
            }
            CallResult::NeverGranted { limit } => {
                self.counts.never += 1;
                self.counts.deny(call, limit);
                let limit = limit.and_then(|limit| self.policy.limits().get(limit));
                CallDecision::Denied { limit, fits_after: None }
            }
        };
        Ok((&self.title, decision))
    }

    /// `None` if calls carry no amounts that count here.
    fn cost(&self, call: &LoggedCall) -> Result<Option<Cost>, SimulateError> {
        if self.amounts.is_empty() {
            return Ok(None);
        }
        let amounts =
            self.amounts.iter().filter_map(|(index, unit)| Some((unit.as_str(), *call.amounts.get(*index)?)));
        Ok(Some(self.policy.cost(amounts)?))
    }
}

impl TrialCounts {
    fn grant(&mut self, call: &LoggedCall, wait: Span, readings: &[Reading]) {
        self.granted += 1;
        if wait > Span::ZERO {
            self.waits.add(wait);
        }
        // A call that waited begins at the end of its wait.
        self.timeline.granted(call.time.plus(wait));
        for (peak, reading) in self.peaks.iter_mut().zip(readings) {
            peak.raise(reading, &call.subject);
        }
    }

    fn deny(&mut self, call: &LoggedCall, limit: Option<usize>) {
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
