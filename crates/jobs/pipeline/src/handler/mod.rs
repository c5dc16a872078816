//! What does the work of a stage: a tower `Service` from a [`Task`] to an [`Answer`].
//!
//! Timeouts and retries are layers around it. [`subprocess`] runs a program, [`http`] posts to a URL, and
//! [`handler_fn`] makes a handler of a closure:
//!
//! ```
//! use tollway_pipeline::handler::{Answer, Task, handler_fn};
//!
//! let handler = handler_fn(async |task: Task| Answer::hands_on([format!(r#"{{"from": {}}}"#, task.job.id)]));
//! ```

mod answer;
pub mod guard;
pub mod http;
mod own_time;
mod redact;
pub mod subprocess;
mod turn;

use std::convert::Infallible;
use std::future::Future;

use tollway_core::{Span, Timestamp};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt, service_fn};

pub use answer::{Answer, Handed};
pub use turn::Turn;

use crate::Job;

/// One job for a handler.
#[derive(Clone, Debug)]
pub struct Task {
    /// The job. Its counts say how often it was tried.
    pub job: Job,
    /// When the handler must have answered.
    pub deadline: Timestamp,
    /// The job's turn at the vendor. It has begun, unless the handler is one that begins itself.
    pub turn: Turn,
}

impl Task {
    /// Which try this is: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.job.failures.saturating_add(1)
    }
}

/// A handler of any kind. An error counts as a failed try.
pub type Handler = BoxCloneSyncService<Task, Answer, BoxError>;

/// A handler out of a service.
pub fn handler<S>(service: S) -> Handler
where
    S: Service<Task, Response = Answer> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    BoxCloneSyncService::new(service.map_err(Into::into))
}

/// A handler out of an async closure.
pub fn handler_fn<F, R>(work: F) -> Handler
where
    F: Fn(Task) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    handler(service_fn(move |task| {
        let answer = work(task);
        async move { Ok::<_, Infallible>(answer.await) }
    }))
}

/// The same handler, which fails a job that takes longer than this. Time in which the whole process was stopped does not
/// count.
pub fn with_timeout(inner: Handler, timeout: Span) -> Handler {
    handler(service_fn(move |task| {
        let answer = own_time::within(timeout, inner.clone().oneshot(task));
        async move { answer.await.unwrap_or_else(|| Ok(Answer::too_late(timeout, String::new()))) }
    }))
}
