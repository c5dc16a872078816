//! What one process did in each stage. The engine counts for all processes together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tollway_core::Name;

use super::lock;
use crate::{Cause, Conclusion, Events};

/// What this process did in each stage since it started. Clones show the same, also after the runner has ended.
#[derive(Clone, Debug, Default)]
pub struct OwnEvents(Arc<Mutex<BTreeMap<Name, Events>>>);

impl OwnEvents {
    /// The stages in which something happened.
    pub fn by_stage(&self) -> BTreeMap<Name, Events> {
        lock(&self.0).clone()
    }

    pub(super) fn called(&self, stage: &Name) {
        self.change(stage, |events| events.claimed += 1);
    }

    pub(super) fn late(&self, stage: &Name) {
        self.change(stage, |events| events.late += 1);
    }

    /// The end of one attempt was stored.
    pub(super) fn concluded(&self, stage: &Name, conclusion: &Conclusion) {
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
        change(lock(&self.0).entry(stage.clone()).or_default());
    }
}
