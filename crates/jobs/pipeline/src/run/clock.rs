//! The time of a pipeline: the limiter's clock, so that tests can move time, unless the engine knows better.

use std::sync::Arc;

use tollway::Limiter;
use tollway_core::{Clock, Timestamp};

use crate::Engine;

/// The clock of everything that compares a time with those of jobs. What the limiter says is a wait from now, whatever its
/// clock shows.
pub(super) struct PipelineClock {
    pub(super) limiter: Limiter,
    pub(super) engine: Arc<dyn Engine>,
}

impl Clock for PipelineClock {
    fn now(&self) -> Timestamp {
        self.engine.time(self.limiter.clock().now())
    }
}

/// Sleeps until the clock shows `at`; never returns early.
pub async fn sleep_until(clock: &dyn Clock, at: Timestamp) {
    loop {
        let now = clock.now();
        if now >= at {
            return;
        }
        tokio::time::sleep(at.since(now).into()).await;
    }
}
