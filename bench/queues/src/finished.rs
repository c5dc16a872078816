//! When all jobs are through both stages.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

/// How often to look.
const PAUSE: Duration = Duration::from_millis(2);

/// No queue takes that long for the work of a round.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How many jobs have been through the handler of the second stage. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finished(Arc<AtomicU64>);

impl Finished {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until all jobs have been through, and then until the queue has recorded it: a handler returns before that.
    pub(crate) async fn wait<F>(&self, jobs: u64, mut unrecorded: impl FnMut() -> F) -> Result<Duration>
    where
        F: Future<Output = Result<bool>>,
    {
        let started = Instant::now();
        while self.0.load(Ordering::Relaxed) < jobs || unrecorded().await? {
            let finished = self.0.load(Ordering::Relaxed);
            ensure!(started.elapsed() < TIMEOUT, "only {finished} of {jobs} jobs are through");
            sleep(PAUSE).await;
        }
        Ok(started.elapsed())
    }
}
