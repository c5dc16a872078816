//! The replay: every call of a log is a take at its own time, decided by the real engine under each trial policy.
//!
//! Memory is bounded however long the log is: accounts by the store, subjects by `ranking`, waits by `spread`, the course
//! of time by `timeline`.

mod engine;
mod outcome;
mod ranking;
mod spread;
mod timeline;
mod trial;

use std::ops::ControlFlow;
use std::sync::Arc;

use tollway_core::{Span, Timestamp};

use crate::simulate::error::SimulateError;
use crate::simulate::log::{Log, LogFormat, LoggedCall, Unreadable};
use crate::simulate::trial_policy::TrialPolicy;
use engine::LogClock;
use outcome::Observer;
pub use outcome::{CallDecision, CallOutcome};
pub use ranking::{COUNTERS_KEPT, Ranking};
pub use spread::Spread;
pub use timeline::{Bar, Timeline};
pub use trial::{LimitCounts, Peak, Trial, TrialCounts};

/// A replay under one or several policies.
pub struct Replay<'o> {
    clock: Arc<LogClock>,
    trials: Vec<Trial>,
    traffic: Traffic,
    observer: Option<Observer<'o>>,
}

/// Statistics of the log itself, independent of policies.
#[derive(Debug, Default)]
pub struct Traffic {
    /// How many calls there are.
    pub calls: u64,
    /// Calls whose time is before that of a call above them.
    pub out_of_order: u64,
    /// The first and the last time; none without calls.
    pub range: Option<(Timestamp, Timestamp)>,
    /// How many calls each subject makes.
    pub by_calls: Ranking,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The bytes that were read.
    pub bytes: u64,
    /// The calls that were replayed.
    pub calls: u64,
    /// The lines that were skipped because they are no calls.
    pub skipped: u64,
}

/// A replay that is over.
pub struct Summary {
    /// The format of the log.
    pub format: LogFormat,
    /// What the log shows.
    pub traffic: Traffic,
    /// One trial for each policy.
    pub trials: Vec<Trial>,
    /// How many lines were skipped because they are no calls.
    pub skipped: u64,
    /// The first few of them.
    pub unreadable: Vec<Unreadable>,
}

impl<'o> Replay<'o> {
    /// A replay with one trial for each policy. `units` are those of [`Log::units`]; calls wait up to `max_wait`, and no
    /// longer than each policy allows.
    pub fn new(policies: Vec<TrialPolicy>, units: &[String], max_wait: Span) -> Result<Self, SimulateError> {
        policies.iter().try_for_each(|trial| trial.check_wait(max_wait))?;
        let clock = Arc::new(LogClock::default());
        let count = policies.len();
        let trial = |policy| Trial::new(policy, units, max_wait, count, Arc::clone(&clock));
        let trials = policies.into_iter().map(trial).collect();
        Ok(Self { clock, trials, traffic: Traffic::default(), observer: None })
    }

    /// Also reports the outcome of each call under each policy. If `observe` fails, the replay ends with
    /// [`SimulateError::Outcomes`].
    pub fn observed_by(self, observe: impl FnMut(CallOutcome<'_>) -> std::io::Result<()> + 'o) -> Self {
        Self { observer: Some(Box::new(observe)), ..self }
    }

    /// Replays the log to its end, until `stop` returns true, or until `progress` breaks. `stop` is also called while no
    /// lines arrive, `progress` after each batch.
    pub fn run(
        mut self,
        log: &Log,
        stop: impl Fn() -> bool,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Summary, SimulateError> {
        let (mut skipped, mut unreadable) = (0, Vec::new());
        while let Some(batch) = log.next(&stop)? {
            batch.calls.iter().try_for_each(|call| self.take(call))?;
            skipped += batch.skipped;
            unreadable.extend(batch.unreadable);
            let so_far = Progress { bytes: log.bytes_done(), calls: self.traffic.calls, skipped };
            if progress(so_far).is_break() {
                break;
            }
        }
        let Self { trials, traffic, .. } = self;
        Ok(Summary { format: log.format(), traffic, trials, skipped, unreadable })
    }

    /// Replays one call under every policy.
    fn take(&mut self, call: &LoggedCall) -> Result<(), SimulateError> {
        self.traffic.add(call);
        self.clock.set(call.time);
        let number = self.traffic.calls;
        for trial in &mut self.trials {
            let (title, decision) = trial.take(call)?;
            if let Some(observe) = &mut self.observer {
                observe(CallOutcome { number, call, title, decision }).map_err(SimulateError::Outcomes)?;
            }
        }
        Ok(())
    }
}

impl Traffic {
    fn add(&mut self, call: &LoggedCall) {
        self.calls += 1;
        let (first, last) = self.range.unwrap_or((call.time, call.time));
        self.out_of_order += u64::from(call.time < last);
        self.range = Some((first.min(call.time), last.max(call.time)));
        self.by_calls.add(&call.subject);
    }
}
