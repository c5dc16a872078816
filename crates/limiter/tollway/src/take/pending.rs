//! A call to the store that has not started: awaited, or run on a thread without a runtime.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollway_core::Subject;

use crate::TakeError;
use crate::state::LimiterState;

type BoxedAnswer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
type Start<T, E> = Box<dyn FnOnce(Subject) -> BoxedAnswer<T, E> + Send>;

/// A call to the store. Await it, or call [`now`](Pending::now) on a thread without a runtime.
#[must_use = "nothing happens until it is awaited"]
pub struct Pending<T, E = TakeError> {
    /// None if the call is invalid; it then fails without the store.
    state: Option<Arc<LimiterState>>,
    subject: Result<Subject, TakeError>,
    start: Start<T, E>,
}

impl<T, E: From<TakeError> + 'static> Pending<T, E> {
    pub(crate) fn new<F>(
        state: Option<Arc<LimiterState>>,
        start: impl FnOnce(Subject) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        Self { state, subject: Ok(Subject::SHARED), start: Box::new(|subject| Box::pin(start(subject))) }
    }

    /// Runs the call on this thread, which must not belong to an async runtime unless the store is in process.
    pub fn now(self) -> Result<T, E> {
        let Self { state, subject, start } = self;
        if let Some(state) = &state {
            state.check_may_block()?;
        }
        let mut answer = start(subject?);
        // A store in process has answered by now, and needs no runtime.
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        match state {
            Some(state) => state.timers.block_on(answer)?,
            None => Err(TakeError::BlockingInAsync.into()),
        }
    }
}

impl<T> Pending<T> {
    /// For this subject; without it, the policy's one shared subject.
    pub fn subject(mut self, subject: &str) -> Self {
        if self.subject.is_ok() {
            self.subject = Subject::new(subject).map_err(TakeError::from);
        }
        self
    }
}

impl<T: 'static, E: From<TakeError> + Send + 'static> IntoFuture for Pending<T, E> {
    type Output = Result<T, E>;
    type IntoFuture = BoxedAnswer<T, E>;

    fn into_future(self) -> Self::IntoFuture {
        match self.subject {
            Ok(subject) => (self.start)(subject),
            Err(error) => Box::pin(async move { Err(error.into()) }),
        }
    }
}
