//! What each library needs to do the work that all are measured by, and to wait.

pub(crate) mod governor;
pub(crate) mod leaky_bucket;
pub(crate) mod limitador;
pub(crate) mod throttlecrab;
pub(crate) mod tollway;

use std::future::Future;

/// Something to wait on: many tasks, one rate.
pub(crate) trait Waiter: Send + Sync + Sized + 'static {
    /// The same limiter, for another task.
    fn join(&self) -> Self;

    /// Until granted.
    fn wait(&self) -> impl Future<Output = ()> + Send;
}
