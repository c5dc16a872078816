//! Asking for a permit: the words a caller chains, and what happens when they are awaited.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollway_core::{Answer, CallId, Cost, DecideNow, GrantNow, Span, Subject};

use crate::background::InFlight;
use crate::bound::{Ask, Asks, Bound, BoundRef, next_permit};
use crate::granted::{Granted, Taken};
use crate::metrics::count;
use crate::request::{Options, Request, Sent};
use crate::waiting::wait_for_permit;
use crate::{Denied, Limiter, Permit, TakeError};

/// A take that waits for its turn.
pub enum Waits {}

/// A take that is answered at once.
pub enum Tries {}

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
    /// The policy named first, or why there is none.
    bound: Result<BoundRef<'l>, Box<TakeError>>,
    /// Checked when the take leaves the short way: a subject that is not valid has no line to be found.
    subject: &'l str,
    cost: Option<Cost>,
    readings: bool,
    /// What most takes leave as it is.
    more: Option<Box<More>>,
    mode: PhantomData<Mode>,
}

#[derive(Default)]
struct More {
    /// The policies named after the first.
    asks: Vec<Ask>,
    options: Options,
}

impl<'l, Mode> Take<'l, Mode> {
    #[inline(always)]
    pub(crate) fn new(limiter: &'l Limiter, bound: Result<BoundRef<'l>, Box<TakeError>>) -> Self {
        Self { limiter, bound, subject: "", cost: None, readings: false, more: None, mode: PhantomData }
    }

    /// For whom the policy named last counts; without it, the policy's one shared subject.
    #[inline(always)]
    pub fn subject(mut self, subject: &'l str) -> Self {
        match self.last_ask() {
            None => self.subject = subject,
            Some(_) => self.change_last(|ask| {
                ask.subject = Subject::new(subject)?;
                Ok(())
            }),
        }
        self
    }

    /// How much of a unit the call takes under the policy named last.
    pub fn cost(mut self, unit: &str, amount: u64) -> Self {
        if self.last_ask().is_some() {
            self.change_last(|ask| {
                ask.cost = Some(ask.bound.policy.cost_with(ask.cost().clone(), unit, amount)?);
                Ok(())
            });
        } else if let Ok(bound) = &self.bound {
            let cost = self.cost.take().unwrap_or_else(|| bound.policy.default_cost().clone());
            match bound.policy.cost_with(cost, unit, amount) {
                Ok(cost) => self.cost = Some(cost),
                Err(error) => self.bound = Err(Box::new(error.into())),
            }
        }
        self
    }

    /// Also under this policy, all or nothing. `subject` and `cost` speak of it from here on.
    pub fn and(mut self, policy: &str) -> Self {
        match self.limiter.find(policy) {
            Ok(bound) => self.add(Ask::new(bound)),
            Err(error) => self.fail(error),
        }
        self
    }

    pub(crate) fn add(&mut self, ask: Ask) {
        self.more.get_or_insert_default().asks.push(ask);
    }

    /// An id of the caller's: the same take repeated with it within ten minutes counts once.
    pub fn id(mut self, id: &str) -> Self {
        match CallId::new(id) {
            Ok(id) => self.more.get_or_insert_default().options.call = Some(id),
            Err(error) => self.fail(error.into()),
        }
        self
    }

    /// Answer with a reading of every limit.
    pub fn with_readings(mut self) -> Self {
        self.readings = true;
        self
    }

    #[inline(always)]
    fn last_ask(&mut self) -> Option<&mut Ask> {
        self.more.as_mut().and_then(|more| more.asks.last_mut())
    }

    fn change_last(&mut self, change: impl FnOnce(&mut Ask) -> Result<(), TakeError>) {
        if let Some(ask) = self.last_ask()
            && let Err(error) = change(ask)
        {
            self.fail(error);
        }
    }

    /// The first thing that is wrong is what the caller is told.
    fn fail(&mut self, error: TakeError) {
        if self.bound.is_ok() {
            self.bound = Err(Box::new(error));
        }
    }

    /// The whole question, owned, for the long way.
    pub(crate) fn into_request(self) -> Result<Request, TakeError> {
        let bound = match self.bound {
            Ok(bound) => bound.to_arc(),
            Err(error) => return Err(*error),
        };
        let first = Ask { bound, subject: Subject::new(self.subject)?, cost: self.cost };
        let registry = Arc::clone(self.limiter.registry());
        let readings = self.readings;
        Ok(match self.more {
            None => Request::new(Asks::One(first), Options { readings, ..Options::default() }, registry),
            Some(more) => {
                Request::new(Asks::new(first, more.asks), Options { readings, ..more.options }, registry)
            }
        })
    }
}

impl Take<'_, Waits> {
    /// The longest wait; the policy's own cap still holds.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.more.get_or_insert_default().options.max_wait = Some(wait.into());
        self
    }

    /// Waits for the permit on this thread, which must not belong to an async runtime.
    pub fn wait(self) -> Result<Permit, TakeError> {
        let request = self.into_request()?;
        let shared = request.shared().clone();
        shared.timers.block_on(wait_for_permit(request))?
    }
}

impl IntoFuture for Take<'_, Waits> {
    type Output = Result<Permit, TakeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let request = self.into_request();
        Box::pin(async move { wait_for_permit(request?).await })
    }
}

impl<'l> Take<'l, Tries> {
    /// Decides on this thread. With a store in process this neither blocks nor allocates.
    #[inline(always)]
    pub fn now(self) -> Result<Taken<'l>, TakeError> {
        let Self { limiter, bound, subject, cost, readings, more, mode } = self;
        if let (Ok(BoundRef::Lent(lent)), None, false, None) = (&bound, &cost, readings, &more) {
            let lent = *lent;
            // They own nothing then, which the compiler does not see: it would keep them in memory to drop them.
            std::mem::forget((bound, cost, more));
            return Self::lent_now(limiter, lent, subject);
        }
        Self { limiter, bound, subject, cost, readings, more, mode }.own_now()
    }

    fn own_now(self) -> Result<Taken<'l>, TakeError> {
        match self.decide_now() {
            Some(taken) => Ok(taken),
            None => self.into_request()?.decide_now(),
        }
    }

    /// The same for a take that a handle has lent everything to: nearly all of those that are to be quick.
    #[inline(always)]
    fn lent_now(
        limiter: &'l Limiter,
        bound: &'l Arc<Bound>,
        subject: &'l str,
    ) -> Result<Taken<'l>, TakeError> {
        match bound.decide_now(subject, None) {
            Some(DecideNow::Granted(granted)) => Ok(Taken::Granted(Granted::lent(bound, subject, granted))),
            Some(DecideNow::Denied(denied)) => Ok(Taken::Denied(Denied::now(Arc::clone(bound), denied))),
            None => Self::long_now(limiter, bound, subject),
        }
    }

    #[cold]
    fn long_now(
        limiter: &'l Limiter,
        bound: &'l Arc<Bound>,
        subject: &'l str,
    ) -> Result<Taken<'l>, TakeError> {
        Self::new(limiter, Ok(BoundRef::Lent(bound))).subject(subject).into_request()?.decide_now()
    }

    /// The short way, where there is one: nothing has happened otherwise.
    fn decide_now(&self) -> Option<Taken<'l>> {
        let (Ok(bound), None) = (&self.bound, &self.more) else { return None };
        if self.readings {
            return self.decide_and_read(bound);
        }
        Some(match (bound.decide_now(self.subject, self.cost.as_ref())?, bound, &self.cost) {
            (DecideNow::Granted(granted), BoundRef::Lent(bound), None) => {
                Taken::Granted(Granted::lent(bound, self.subject, granted))
            }
            (DecideNow::Granted(granted), ..) => Taken::Granted(self.own_grant(bound, granted)),
            (DecideNow::Denied(denied), ..) => Taken::Denied(Denied::now(bound.to_arc(), denied)),
        })
    }

    /// The same, with a reading of every limit.
    fn decide_and_read(&self, bound: &BoundRef<'_>) -> Option<Taken<'l>> {
        let cost = self.cost.as_ref().unwrap_or(bound.policy.default_cost());
        let mut readings = Vec::new();
        Some(match bound.decide_and_read(self.subject, cost, |reading| readings.push(reading))? {
            DecideNow::Granted(granted) => {
                let permit = self.own_permit(bound, granted);
                Taken::Granted(Granted::owned(permit.with_readings(readings)))
            }
            DecideNow::Denied(denied) => {
                let mut denied = Denied::now(bound.to_arc(), denied);
                denied.denial.readings = readings;
                Taken::Denied(denied)
            }
        })
    }

    /// A grant that cannot borrow all it needs: the policy was looked up for this take, or a cost was named.
    fn own_grant(&self, bound: &BoundRef<'_>, granted: GrantNow) -> Granted<'l> {
        Granted::owned(self.own_permit(bound, granted))
    }

    fn own_permit(&self, bound: &BoundRef<'_>, granted: GrantNow) -> Permit {
        // The line was found under this subject, so it is a valid one.
        let subject = Subject::new(self.subject).unwrap_or_default();
        let ask = Ask { bound: bound.to_arc(), subject, cost: self.cost.clone() };
        Permit::of_booking(Asks::One(ask), granted.booking(next_permit()))
    }
}

impl Request {
    /// The long way: through the store's one method.
    fn decide_now(self) -> Result<Taken<'static>, TakeError> {
        self.shared().may_block()?;
        let asked = self.counts();
        let taken = self.block_on_store()?;
        count(asked.as_deref(), &taken);
        taken
    }

    /// What the store decided; or, outside, that it could not be waited for.
    fn block_on_store(self) -> Result<Result<Taken<'static>, TakeError>, TakeError> {
        if self.leased().is_some() {
            return self.shared().clone().timers.block_on(self.ask(Span::ZERO));
        }
        let (sent, answer) = self.send_now();
        let result = match answer {
            Answer::Now(Some(result)) => result,
            later => self.shared().timers.block_on(later)?,
        };
        Ok(self.conclude(sent, result))
    }
}

impl<'l> IntoFuture for Take<'l, Tries> {
    type Output = Result<Taken<'l>, TakeError>;
    type IntoFuture = Trying<'l>;

    fn into_future(self) -> Trying<'l> {
        Trying(match self.decide_now() {
            Some(taken) => Step::Decided(taken),
            None => self.into_request().map_or_else(Step::Failed, Step::Start),
        })
    }
}

/// A take that was sent and is about to be answered. Written by hand, so that it needs no allocation where the answer is
/// there at once.
pub struct Trying<'l>(Step<'l>);

enum Step<'l> {
    Decided(Taken<'l>),
    Start(Request),
    Leased(Pin<Box<dyn Future<Output = Result<Taken<'static>, TakeError>> + Send>>),
    Sent(Box<(Request, Sent, InFlight)>),
    Failed(TakeError),
    Over,
}

impl<'l> Future for Trying<'l> {
    type Output = Result<Taken<'l>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (request, sent, mut answer) = match std::mem::replace(&mut self.0, Step::Over) {
            Step::Decided(taken) => return Poll::Ready(Ok(taken)),
            Step::Start(request) if request.leased().is_some() => {
                self.0 = Step::Leased(Box::pin(async move {
                    let taken = request.ask(Span::ZERO).await;
                    count(request.counts().as_deref(), &taken);
                    taken
                }));
                return self.poll(context);
            }
            Step::Leased(mut leased) => {
                let taken = leased.as_mut().poll(context);
                if taken.is_pending() {
                    self.0 = Step::Leased(leased);
                }
                return taken;
            }
            Step::Start(request) => {
                let (sent, answer) = request.send_now();
                let answer = request.in_flight(answer);
                (request, sent, answer)
            }
            Step::Sent(waiting) => *waiting,
            Step::Failed(error) => return Poll::Ready(Err(error)),
            // Polled after it was ready: a caller's mistake that must not end the process.
            Step::Over => return Poll::Pending,
        };
        match Pin::new(&mut answer).poll(context) {
            Poll::Ready(result) => {
                let asked = request.counts();
                let taken = request.conclude(sent, result);
                count(asked.as_deref(), &taken);
                Poll::Ready(taken)
            }
            Poll::Pending => {
                self.0 = Step::Sent(Box::new((request, sent, answer)));
                Poll::Pending
            }
        }
    }
}
