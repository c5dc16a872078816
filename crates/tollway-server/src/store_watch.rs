//! Says in the log when the store fails, and when it is back.

use tokio::time::{MissedTickBehavior, interval};
use tollway::Limiter;

use crate::bounds::STORE_LOOK_INTERVAL;

/// Never ends.
pub(crate) async fn report(limiter: &Limiter, store: &str) {
    let mut ticks = interval(STORE_LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = limiter.store_status().fallbacks;
    let mut degraded = false;
    loop {
        ticks.tick().await;
        let status = limiter.store_status();
        if status.fallbacks != told {
            told = status.fallbacks;
            degraded = true;
            let error = status.last_error.unwrap_or_default();
            tracing::error!("{store} issue: {error}; each policy does what it says in `when_store_fails`");
        }
        if degraded && status.degraded_since.is_none() {
            degraded = false;
            tracing::warn!(degraded_decisions = status.degraded_decisions, "the store is back");
        }
    }
}
