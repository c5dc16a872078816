//! The replay: every call of a log is a take at its own time, by the real engine, under each policy on trial.
//!
//! Everything that is kept is bounded, however long the log: meters by the store, subjects by `ranking`, waits by
//! `spread`, the course of time by `timeline`.

mod clock;
mod ranking;
mod spread;
mod timeline;
mod trial;

use std::sync::Arc;

use tollway::{Span, Timestamp};

use super::log::Call;
use crate::failure::Failure;
use clock::LogClock;
pub(super) use ranking::Ranking;
pub(super) use spread::Spread;
pub(super) use timeline::{Bar, Timeline};
pub(super) use trial::{LimitTally, Trial, TrialPolicy};

/// A replay, and what it has seen so far.
pub(super) struct Replay {
    clock: Arc<LogClock>,
    pub(super) trials: Vec<Trial>,
    pub(super) seen: Seen,
}

/// What the log itself shows, whatever the policy.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) calls: u64,
    /// Calls whose time lies before that of a call above them.
    pub(super) out_of_order: u64,
    pub(super) range: Option<(Timestamp, Timestamp)>,
    pub(super) by_calls: Ranking,
}

impl Replay {
    /// With one trial for each policy. `units` are those whose amounts calls carry.
    pub(super) fn new(policies: Vec<TrialPolicy>, units: &[String], max_wait: Span) -> Self {
        let clock = Arc::new(LogClock::default());
        let count = policies.len();
        let trial = |policy| Trial::new(policy, units, max_wait, count, Arc::clone(&clock));
        let trials = policies.into_iter().map(trial).collect();
        Self { clock, trials, seen: Seen::default() }
    }

    /// Replays one call under every policy.
    pub(super) fn take(&mut self, call: &Call) -> Result<(), Failure> {
        self.seen.note(call);
        self.clock.set(call.time);
        self.trials.iter_mut().try_for_each(|trial| trial.take(call))
    }
}

impl Seen {
    fn note(&mut self, call: &Call) {
        self.calls += 1;
        let (first, last) = self.range.unwrap_or((call.time, call.time));
        self.out_of_order += u64::from(call.time < last);
        self.range = Some((first.min(call.time), last.max(call.time)));
        self.by_calls.add(&call.subject);
    }
}
