//! Adapts each library to the common work, and to waiting.

pub(crate) mod governor;
pub(crate) mod leaky_bucket;
pub(crate) mod limitador;
pub(crate) mod throttlecrab;
pub(crate) mod tollway;

use std::future::Future;

/// A limiter to wait on: many tasks, one rate.
pub(crate) trait Waiter: Send + Sync + Sized + 'static {
    /// The same limiter, for another task.
    fn join(&self) -> Self;

    /// Waits until granted.
    fn wait(&self) -> impl Future<Output = ()> + Send;
}
