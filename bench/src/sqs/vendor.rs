//! What the jobs call: a vendor with a quota, whose answers take a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tollway::Limiter;

/// The name of the policy.
pub(super) const POLICY: &str = "vendor";

/// The shortest call, and how much longer others take, so that calls do not end together.
const CALL_MS: u64 = 20;
const SPREAD_MS: u64 = 180;

#[derive(Clone)]
pub(super) struct Vendor {
    /// Grants its quota; in memory.
    pub(super) limiter: Limiter,
    calls: Arc<AtomicU64>,
}

impl Vendor {
    pub(super) fn new(limit: &str) -> Result<Self> {
        Ok(Self { limiter: Limiter::builder().policy(POLICY, [limit])?.build(), calls: Arc::default() })
    }

    /// Calls it for the job with this data, a number. A number always takes the same time.
    pub(super) async fn call(&self, data: &str) -> Result<()> {
        let number: u64 = data.parse()?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(CALL_MS + number * 37 % SPREAD_MS)).await;
        Ok(())
    }

    /// How many calls were made.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}
