//! Sleeping until a moment of the limiter's clock, on any executor and on none.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Sleep;
use tollway_core::{Clock, Timestamp};

use crate::{LimiterBuilder, TakeError};

/// Timers of the caller's tokio runtime, or of a small runtime that starts when it is first needed.
#[derive(Default)]
pub(crate) struct Timers {
    own: OnceLock<Result<Background, String>>,
}

/// Where the limiter's background work runs.
struct Background {
    handle: Handle,
    /// None on a runtime of the program.
    runtime: Option<Runtime>,
}

impl Background {
    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tollway-timer")
            // Sources talk to networks.
            .enable_all()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl LimiterBuilder {
    /// Runs the limiter's background work on this runtime instead of on a thread of its own: probes of a store that failed,
    /// leases that go back, limits set at run time. For programs with many limiters, and for tests in paused time.
    ///
    /// The runtime must have timers, and end after the limiter.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }
}

impl Timers {
    /// Uses a runtime of the program, if one is given, instead of an own one. To be called before anything runs.
    pub(crate) fn run_on(&self, runtime: Option<Handle>) {
        if let Some(handle) = runtime {
            let _ = self.own.set(Ok(Background { handle, runtime: None }));
        }
    }

    /// Sleeps until the clock shows `at`. Never returns early, whatever the timer's grain.
    pub(crate) async fn sleep_until(&self, clock: &dyn Clock, at: Timestamp) -> Result<(), TakeError> {
        loop {
            let now = clock.now();
            if now >= at {
                return Ok(());
            }
            self.sleep(at.since(now).into())?.await;
        }
    }

    fn sleep(&self, duration: Duration) -> Result<Sleep, TakeError> {
        if Handle::try_current().is_ok() {
            return Ok(tokio::time::sleep(duration));
        }
        let _context = self.own()?.enter();
        Ok(tokio::time::sleep(duration))
    }

    /// Runs a future to its end on this thread.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> Result<F::Output, TakeError> {
        if Handle::try_current().is_ok() {
            return Err(TakeError::BlockingInAsync);
        }
        Ok(self.own()?.block_on(future))
    }

    /// Lets a future run to its end in the background, best effort.
    pub(crate) fn spawn(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Option<tokio::task::AbortHandle> {
        let task = match Handle::try_current() {
            Ok(handle) => handle.spawn(future),
            Err(_) => self.own().ok()?.spawn(future),
        };
        Some(task.abort_handle())
    }

    /// The same, on the limiter's own threads: it outlives the caller's runtime.
    pub(crate) fn spawn_own(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Option<tokio::task::AbortHandle> {
        Some(self.own().ok()?.spawn(future).abort_handle())
    }

    /// Runs a future on the limiter's own threads. It may be awaited on any executor; the future runs to its end even if
    /// that is given up.
    pub(crate) async fn run_own<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, TakeError> {
        let task = self.own()?.spawn(future);
        task.await.map_err(|error| TakeError::Runtime(error.to_string()))
    }

    fn own(&self) -> Result<&Handle, TakeError> {
        let background =
            self.own.get_or_init(|| Background::start().map_err(|cause| cause.to_string())).as_ref();
        background.map(|background| &background.handle).map_err(|cause| TakeError::Runtime(cause.clone()))
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // A runtime must not be waited for on a thread of another one, and a limiter may be dropped anywhere.
        if let Some(Ok(Background { runtime: Some(runtime), .. })) = self.own.take() {
            runtime.shutdown_background();
        }
    }
}
