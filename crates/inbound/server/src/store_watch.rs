//! Says in the log when the store fails, and when it is back.

use tollway::{Limiter, StoreStatus};

/// Never ends.
pub(crate) async fn report(limiter: &Limiter, store: &str) {
    // A store that failed before the server was up is reported, too.
    let mut seen = StoreStatus::default();
    loop {
        let status = limiter.store_status_after(&seen).await;
        let failed = status.fallbacks != seen.fallbacks;
        if failed {
            let error = status.last_error.as_deref().unwrap_or_default();
            tracing::error!("{store} issue: {error}; each policy does what it says in `when_store_fails`");
        }
        if status.degraded_since.is_none() && (failed || seen.degraded_since.is_some()) {
            tracing::warn!(degraded_decisions = status.degraded_decisions, "the store is back");
        }
        seen = status;
    }
}
