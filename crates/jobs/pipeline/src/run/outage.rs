//! Outages of the engine: the run waits until it answers again, and says so once.

use std::sync::Mutex;

use tokio::sync::Notify;
use tollway_core::{Span, Timestamp};

use super::lock;
use crate::bounds::KEPT_BYTES_MAX;
use crate::{Conclusion, EngineError, EngineFault};

/// How many finished answers are kept while the engine is away. With more, no job begins: each is a call that was paid for, and
/// is lost if the process dies.
const KEPT_MAX: usize = 1_000;

/// The shortest time between two warnings. An engine that fails every other call must not flood the log.
const WARN_EVERY: Span = Span::from_secs(10);

/// The engine does not answer, or cannot store anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOutage {
    /// When the first call failed.
    pub since: Timestamp,
    /// For how long.
    pub lasts: Span,
    /// How the last call failed.
    pub error: EngineError,
    /// Finished answers that are kept until they can be stored.
    pub kept: usize,
}

/// Whether the engine answers, and which answers wait for it.
#[derive(Default)]
pub(super) struct EngineHealth {
    state: Mutex<HealthState>,
    /// An answer was stored.
    room: Notify,
    /// The engine answers again.
    back: Notify,
}

#[derive(Default)]
struct HealthState {
    outage: Option<(Timestamp, EngineError)>,
    /// When the last warning was logged, and whether its end is still to be logged.
    warned: Option<(Timestamp, bool)>,
    kept: usize,
    kept_bytes: usize,
}

impl EngineHealth {
    /// Notes how a call of the engine ended.
    pub(super) fn note<T>(&self, answer: &Result<T, EngineError>, now: Timestamp) {
        match answer {
            Ok(_) => self.answered(now),
            Err(error) if is_outage(error) => self.failed(error, now),
            Err(_) => {}
        }
    }

    fn answered(&self, now: Timestamp) {
        let mut state = lock(&self.state);
        let Some((since, _)) = state.outage.take() else { return };
        let kept = state.kept;
        self.back.notify_one();
        if let Some((_, is_open @ true)) = &mut state.warned {
            *is_open = false;
            drop(state);
            let away = whole_seconds(now.since(since));
            tracing::warn!(
                kept,
                "the engine answers again after {away}; answers that were kept are stored now"
            );
        }
    }

    fn failed(&self, error: &EngineError, now: Timestamp) {
        let mut state = lock(&self.state);
        let since = state.outage.as_ref().map_or(now, |(since, _)| *since);
        let is_new = state.outage.is_none();
        state.outage = Some((since, error.clone()));
        let is_due = state.warned.is_none_or(|(at, _)| now.since(at) >= WARN_EVERY);
        if is_new && is_due {
            state.warned = Some((now, true));
            drop(state);
            tracing::warn!(
                %error,
                "the engine does not answer: no job is claimed, running handlers go on and their answers are kept; trying again"
            );
        }
    }

    /// Waits until the engine answers again after an outage.
    pub(super) async fn is_back(&self) {
        self.back.notified().await;
    }

    pub(super) fn outage(&self, now: Timestamp) -> Option<EngineOutage> {
        let state = lock(&self.state);
        let (since, error) = state.outage.clone()?;
        Some(EngineOutage { since, lasts: now.since(since), error, kept: state.kept })
    }

    /// Keeps an answer that could not be stored, until the value is dropped.
    pub(super) fn keep(&self, conclusion: &Conclusion) -> KeptAnswer<'_> {
        let bytes = conclusion.bytes();
        let mut state = lock(&self.state);
        state.kept += 1;
        state.kept_bytes += bytes;
        KeptAnswer { health: self, bytes }
    }

    /// Waits until another answer may be kept: a job that begins brings one.
    pub(super) async fn room(&self) {
        loop {
            let stored = self.room.notified();
            let has_room = {
                let state = lock(&self.state);
                state.kept < KEPT_MAX && state.kept_bytes < KEPT_BYTES_MAX
            };
            if has_room {
                return;
            }
            stored.await;
        }
    }
}

/// An answer that waits for the engine.
pub(super) struct KeptAnswer<'h> {
    health: &'h EngineHealth,
    bytes: usize,
}

impl Drop for KeptAnswer<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.health.state);
        state.kept -= 1;
        state.kept_bytes -= self.bytes;
        drop(state);
        self.health.room.notify_waiters();
    }
}

/// Whether the engine failed, and not the call. What it refused once it has worked, such as the credentials of a role that is
/// rotated, may be accepted again.
pub(super) fn is_outage(error: &EngineError) -> bool {
    error.fault != EngineFault::Caller
}

fn whole_seconds(span: Span) -> String {
    Span::from_secs(span.as_micros().div_ceil(1_000_000)).to_string()
}
