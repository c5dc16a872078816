//! Asking for a permit: the words a caller chains, and what happens when they are awaited.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tollway_core::{Answer, CallId, Subject};

use crate::bound::Ask;
use crate::request::{Request, Sent};
use crate::waiting::wait_for_permit;
use crate::{Denied, Limiter, Permit, TakeError};

/// A take that waits for its turn.
pub enum Waits {}

/// A take that is answered at once.
pub enum Tries {}

/// What a take that does not wait comes to. Denial is an outcome, not an error.
#[derive(Debug)]
pub enum Taken {
    /// The whole cost was taken.
    Granted(Permit),
    /// Nothing was taken.
    Denied(Denied),
}

impl Taken {
    /// Whether it was granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// The permit, if it was granted.
    pub fn granted(self) -> Option<Permit> {
        match self {
            Self::Granted(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }
}

/// A take being put together. Await it, or [`wait`](Take::wait) / [`now`](Take::now) on a thread without a runtime.
///
/// ```
/// # tokio_test(async {
/// use tollway::{Durations, Limiter};
///
/// let limiter = Limiter::builder().policy("gemini", ["5 / minute bucket", "250k tokens / minute bucket"])?.build();
/// let permit = limiter.take("gemini").subject("team-a").cost("tokens", 3_750).max_wait(30.seconds()).await?;
/// permit.settle("tokens", 3_120).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) });
/// # fn tokio_test<T>(future: impl Future<Output = Result<T, Box<dyn std::error::Error>>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future).unwrap();
/// # }
/// ```
#[must_use = "a take does nothing until it is awaited"]
pub struct Take<'l, Mode> {
    limiter: &'l Limiter,
    /// What is asked, or the first thing that was wrong with it.
    request: Result<Request, Box<TakeError>>,
    mode: PhantomData<Mode>,
}

impl<'l, Mode> Take<'l, Mode> {
    #[inline]
    pub(crate) fn new(limiter: &'l Limiter, ask: Result<Ask, TakeError>) -> Self {
        Self { limiter, request: ask.map(Request::new).map_err(Box::new), mode: PhantomData }
    }

    /// For whom the policy named last counts; without it, the policy's one shared subject.
    #[inline]
    pub fn subject(mut self, subject: &str) -> Self {
        if let Ok(request) = &mut self.request {
            match Subject::new(subject) {
                Ok(subject) => request.asks.last_mut().subject = subject,
                Err(error) => self.request = Err(Box::new(error.into())),
            }
        }
        self
    }

    /// How much of a unit the call takes under the policy named last.
    pub fn cost(self, unit: &str, amount: u64) -> Self {
        self.with(|request| {
            let ask = request.asks.last_mut();
            ask.cost = Some(ask.bound.policy.cost_with(ask.cost().clone(), unit, amount)?);
            Ok(())
        })
    }

    /// Also under this policy, all or nothing. `subject` and `cost` speak of it from here on.
    pub fn and(self, policy: &str) -> Self {
        let limiter = self.limiter;
        self.with(|request| {
            request.asks.push(limiter.ask(policy)?);
            Ok(())
        })
    }

    /// An id of the caller's: the same take repeated with it within ten minutes counts once.
    pub fn id(self, id: &str) -> Self {
        self.with(|request| {
            request.options_mut().call = Some(CallId::new(id)?);
            Ok(())
        })
    }

    /// Answer with a reading of every limit.
    pub fn with_readings(self) -> Self {
        self.with(|request| {
            request.options_mut().readings = true;
            Ok(())
        })
    }

    #[inline]
    fn with(mut self, change: impl FnOnce(&mut Request) -> Result<(), TakeError>) -> Self {
        if let Ok(request) = &mut self.request
            && let Err(error) = change(request)
        {
            self.request = Err(Box::new(error));
        }
        self
    }
}

impl Take<'_, Waits> {
    /// The longest wait; the policy's own cap still holds.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.with(|request| {
            request.options_mut().max_wait = Some(wait.into());
            Ok(())
        })
    }

    /// Waits for the permit on this thread, which must not belong to an async runtime.
    pub fn wait(self) -> Result<Permit, TakeError> {
        let request = self.request.map_err(|error| *error)?;
        let shared = request.shared().clone();
        shared.timers.block_on(wait_for_permit(request))?
    }
}

impl IntoFuture for Take<'_, Waits> {
    type Output = Result<Permit, TakeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let request = self.request;
        Box::pin(async move { wait_for_permit(request.map_err(|error| *error)?).await })
    }
}

impl Take<'_, Tries> {
    /// Decides on this thread. With a store in process this neither blocks nor allocates.
    #[inline]
    pub fn now(self) -> Result<Taken, TakeError> {
        let request = match self.request.map_err(|error| *error)?.grant_at_once() {
            Ok(permit) => return Ok(Taken::Granted(permit)),
            Err(request) => request,
        };
        let (sent, answer) = request.send_now();
        let result = match answer {
            Answer::Now(Some(result)) => result,
            later => request.shared().timers.block_on(later)?,
        };
        request.conclude(sent, result)
    }
}

impl IntoFuture for Take<'_, Tries> {
    type Output = Result<Taken, TakeError>;
    type IntoFuture = Trying;

    fn into_future(self) -> Trying {
        Trying(match self.request {
            Ok(request) => Step::Start(request),
            Err(error) => Step::Failed(*error),
        })
    }
}

/// A take that was sent and is about to be answered. Written by hand, so that it needs no allocation.
pub struct Trying(Step);

enum Step {
    Start(Request),
    Sent(Request, Sent, Answer),
    Failed(TakeError),
    Over,
}

impl Future for Trying {
    type Output = Result<Taken, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (request, sent, mut answer) = match std::mem::replace(&mut self.0, Step::Over) {
            Step::Start(request) => match request.grant_at_once() {
                Ok(permit) => return Poll::Ready(Ok(Taken::Granted(permit))),
                Err(request) => {
                    let (sent, answer) = request.send_now();
                    (request, sent, answer)
                }
            },
            Step::Sent(request, sent, answer) => (request, sent, answer),
            Step::Failed(error) => return Poll::Ready(Err(error)),
            // Polled after it was ready: a caller's mistake that must not end the process.
            Step::Over => return Poll::Pending,
        };
        match Pin::new(&mut answer).poll(context) {
            Poll::Ready(result) => Poll::Ready(request.conclude(sent, result)),
            Poll::Pending => {
                self.0 = Step::Sent(request, sent, answer);
                Poll::Pending
            }
        }
    }
}
