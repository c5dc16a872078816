//! The runtime of a blocking client, with one thread for I/O.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::ClientError;
use crate::{ApiClient, ApiClientBuilder, ApiLimiter};

/// How long dropping the last clone of a client waits for the store.
const FLUSH_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct IoThread {
    handle: Handle,
    limiter: ApiLimiter,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

impl IoThread {
    /// Starts it, and builds the client on it.
    pub(super) fn start(builder: ApiClientBuilder) -> Result<(ApiClient, Self), ClientError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("tollway-client").enable_all().build();
        let runtime = runtime.map_err(|error| ClientError::Http(error.into()))?;
        let client = {
            let _context = runtime.enter();
            builder.build()?
        };
        let (handle, limiter) = (runtime.handle().clone(), client.limiter().clone());
        Ok((client, Self { handle, limiter, runtime: Some(runtime) }))
    }

    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        // A thread of an async runtime must not wait for another one.
        if Handle::try_current().is_err() {
            // What the store does not take within this time is lost, as that of a killed process.
            let _ = runtime.block_on(async { tokio::time::timeout(FLUSH_MAX, self.limiter.flush()).await });
        }
        runtime.shutdown_background();
    }
}
