//! What is done for a stage at most once in a while.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tollway_core::Name;

use super::lock;

/// When something was last done for each stage.
pub(super) struct Pause {
    length: Duration,
    done_at: Mutex<HashMap<Name, Instant>>,
}

impl Pause {
    pub(super) fn of(length: Duration) -> Self {
        Self { length, done_at: Mutex::default() }
    }

    /// Whether it was not done for a stage since the pause began.
    pub(super) fn is_over(&self, stage: &Name) -> bool {
        lock(&self.done_at).get(stage).is_none_or(|at| at.elapsed() >= self.length)
    }

    pub(super) fn note(&self, stage: &Name) {
        lock(&self.done_at).insert(stage.clone(), Instant::now());
    }
}
