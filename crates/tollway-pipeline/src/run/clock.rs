//! Sleeping by the limiter's clock, so that tests can move time.

use tollway_core::{Clock, Timestamp};

/// Sleeps until the clock shows `at`; never returns early.
pub(crate) async fn sleep_until(clock: &dyn Clock, at: Timestamp) {
    loop {
        let now = clock.now();
        if now >= at {
            return;
        }
        tokio::time::sleep(at.since(now).into()).await;
    }
}
