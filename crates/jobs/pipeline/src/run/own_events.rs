//! What one process did in each stage. The engine counts for all processes together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use super::lock;
use crate::{Cause, Conclusion, Events};

/// How many calls of a stage are remembered: enough for a median.
const CALLS_MAX: usize = 100;

/// What this process did in each stage since it started. Clones show the same, also after the runner has ended.
#[derive(Clone, Debug, Default)]
pub struct OwnEvents(Arc<Mutex<BTreeMap<Name, StageEvents>>>);

#[derive(Debug, Default)]
struct StageEvents {
    events: Events,
    /// How long the last calls took.
    calls: VecDeque<Span>,
    last_error: Option<LastError>,
}

/// How long the last calls of a handler took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Half of them took less.
    pub median: Span,
    /// The longest.
    pub longest: Span,
}

/// The newest attempt that did not finish its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When.
    pub at: Timestamp,
    /// In which stage.
    pub stage: Name,
    /// What happened.
    pub error: String,
}

impl OwnEvents {
    /// The stages in which something happened.
    pub fn by_stage(&self) -> BTreeMap<Name, Events> {
        lock(&self.0).iter().map(|(stage, own)| (stage.clone(), own.events)).collect()
    }

    /// How long the last 100 calls of a stage took. None: there was none.
    pub fn call_times(&self, stage: &Name) -> Option<CallTimes> {
        let mut calls: Vec<Span> = lock(&self.0).get(stage)?.calls.iter().copied().collect();
        calls.sort_unstable();
        Some(CallTimes { median: *calls.get(calls.len() / 2)?, longest: *calls.last()? })
    }

    /// The newest error of all stages. Refusals for the rate are none.
    pub fn last_error(&self) -> Option<LastError> {
        let own = lock(&self.0);
        own.values().filter_map(|own| own.last_error.clone()).max_by_key(|last| last.at)
    }

    /// The handler has answered.
    pub(super) fn answered(&self, stage: &Name, took: Span) {
        let mut own = lock(&self.0);
        let calls = &mut own.entry(stage.clone()).or_default().calls;
        calls.push_back(took);
        if calls.len() > CALLS_MAX {
            calls.pop_front();
        }
    }

    pub(super) fn called(&self, stage: &Name) {
        self.change(stage, |events| events.claimed += 1);
    }

    pub(super) fn late(&self, stage: &Name) {
        self.change(stage, |events| events.late += 1);
    }

    /// The end of one attempt was stored.
    pub(super) fn concluded(&self, stage: &Name, conclusion: &Conclusion, now: Timestamp) {
        if let Conclusion::Again { attempt, .. } | Conclusion::Dead { attempt } = conclusion
            && attempt.cause() != Cause::RateLimited
        {
            let last = LastError { at: now, stage: stage.clone(), error: attempt.error().to_owned() };
            lock(&self.0).entry(stage.clone()).or_default().last_error = Some(last);
        }
        self.change(stage, |events| match conclusion {
            Conclusion::Done { .. } => events.completed += 1,
            Conclusion::Again { attempt, .. } | Conclusion::Dead { attempt } => match attempt.cause() {
                Cause::Failure => events.failures += 1,
                Cause::Crash => events.crashes += 1,
                Cause::RateLimited => events.rate_limited += 1,
            },
        });
    }

    fn change(&self, stage: &Name, change: impl FnOnce(&mut Events)) {
        change(&mut lock(&self.0).entry(stage.clone()).or_default().events);
    }
}
