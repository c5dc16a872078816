//! Asking for a permit: the words a caller chains, and what happens when they are awaited.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tollway_core::{
    Answer, CallId, Charge, ChargeStatus, Cost, FastDecision, NewAccounts, PermitId, Span, StoreResult,
    Subject, Terms,
};

use crate::background::InFlight;
use crate::metrics::count;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, BoundRef, next_permit};
use crate::take::granted::{FastGrant, Granted, Taken};
use crate::take::pending_take::{Attempt, PendingTake};
use crate::take::waiting::wait_for_permit;
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
    /// Checked when the take leaves the fast path: a subject that is not valid has no account to be found.
    subject: &'l str,
    cost: Option<Cost>,
    readings: bool,
    new_accounts: NewAccounts,
    /// What most takes leave as it is.
    extras: Option<Box<Extras>>,
    mode: PhantomData<Mode>,
}

/// What most takes do without.
#[derive(Default)]
pub(crate) struct Extras {
    /// The charges named after the first, each with its bound policy.
    pub(crate) charges: SmallVec<[(Charge, Arc<BoundPolicy>); 1]>,
    max_wait: Option<Span>,
    call: Option<CallId>,
    /// Drawn for a take with an id: the store remembers both.
    pub(crate) permit: Option<PermitId>,
}

impl<'l, Mode> Take<'l, Mode> {
    #[inline(always)]
    pub(crate) fn new(limiter: &'l Limiter, bound: Result<BoundRef<'l>, Box<TakeError>>) -> Self {
        let new_accounts = NewAccounts::default();
        Self {
            limiter,
            bound,
            subject: "",
            cost: None,
            readings: false,
            new_accounts,
            extras: None,
            mode: PhantomData,
        }
    }

    /// The subject under the policy named last; without it, the policy's shared subject.
    #[inline(always)]
    pub fn subject(mut self, subject: &'l str) -> Self {
        match self.last_charge() {
            None => self.subject = subject,
            Some(_) => self.change_last(|charge| {
                charge.subject = Subject::new(subject)?;
                Ok(())
            }),
        }
        self
    }

    /// How much of a unit the call takes under the policy named last.
    pub fn cost(mut self, unit: &str, amount: u64) -> Self {
        if self.last_charge().is_some() {
            self.change_last(|charge| {
                charge.cost = Some(charge.policy.cost_with(charge.cost().clone(), unit, amount)?);
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

    /// Also charges this policy, all or nothing. Later `subject` and `cost` calls apply to it.
    pub fn and(mut self, policy: &str) -> Self {
        match self.limiter.find(policy) {
            Ok(bound) => self.add(bound),
            Err(error) => self.fail(error),
        }
        self
    }

    pub(crate) fn add(&mut self, bound: Arc<BoundPolicy>) {
        let charge = Charge::new(Arc::clone(&bound.policy), Subject::SHARED);
        self.extras.get_or_insert_default().charges.push((charge, bound));
    }

    /// The caller's id for this take: repeating the take with it within ten minutes counts once.
    pub fn id(mut self, id: &str) -> Self {
        match CallId::new(id) {
            Ok(id) => self.extras.get_or_insert_default().call = Some(id),
            Err(error) => self.fail(error.into()),
        }
        self
    }

    /// Answer with a reading of every limit.
    pub fn with_readings(mut self) -> Self {
        self.readings = true;
        self
    }

    /// What happens to a subject without an account, in a store that heeds it
    /// ([`Store::heeds_new_accounts`](tollway_core::Store::heeds_new_accounts)).
    pub fn new_accounts(mut self, new_accounts: NewAccounts) -> Self {
        self.new_accounts = new_accounts;
        self
    }

    #[inline(always)]
    fn last_charge(&mut self) -> Option<&mut Charge> {
        self.extras.as_mut().and_then(|extras| extras.charges.last_mut()).map(|(charge, _)| charge)
    }

    fn change_last(&mut self, change: impl FnOnce(&mut Charge) -> Result<(), TakeError>) {
        if let Some(charge) = self.last_charge()
            && let Err(error) = change(charge)
        {
            self.fail(error);
        }
    }

    /// The caller gets the first error.
    fn fail(&mut self, error: TakeError) {
        if self.bound.is_ok() {
            self.bound = Err(Box::new(error));
        }
    }

    /// The take as an operation, for the slow path.
    pub(crate) fn into_pending(self) -> Result<PendingTake, TakeError> {
        let bound = match self.bound {
            Ok(bound) => bound.into_arc(),
            Err(error) => return Err(*error),
        };
        let mut charges = BoundCharges::one(bound, Subject::new(self.subject)?, self.cost);
        let (readings, new_accounts) = (self.readings, self.new_accounts);
        let mut terms = Terms { readings, new_accounts, max_wait: Span::MAX, ..Terms::now(next_permit()) };
        if let Some(extras) = self.extras {
            extras.charges.into_iter().for_each(|(charge, bound)| charges.push(charge, bound));
            terms.call = extras.call;
            terms.max_wait = extras.max_wait.unwrap_or(Span::MAX);
        }
        Ok(PendingTake { charges, terms })
    }
}

impl Take<'_, Waits> {
    /// The longest wait; the policy's own cap still holds.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.extras.get_or_insert_default().max_wait = Some(wait.into());
        self
    }

    /// Waits for the permit on this thread, which must not belong to an async runtime.
    pub fn wait(self) -> Result<Permit, TakeError> {
        let take = self.into_pending()?;
        let state = Arc::clone(take.state());
        state.timers.block_on(wait_for_permit(take))?
    }
}

impl IntoFuture for Take<'_, Waits> {
    type Output = Result<Permit, TakeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let take = self.into_pending();
        Box::pin(async move { wait_for_permit(take?).await })
    }
}

impl<'l> Take<'l, Tries> {
    /// Decides on this thread. With a store in process this neither blocks nor allocates.
    #[inline(always)]
    pub fn now(self) -> Result<Taken<'l>, TakeError> {
        let Self { limiter, bound, subject, cost, readings, new_accounts, extras, mode } = self;
        if let (Ok(BoundRef::Borrowed(borrowed)), None, false, NewAccounts::Make, None) =
            (&bound, &cost, readings, new_accounts, &extras)
        {
            let borrowed = *borrowed;
            // They own nothing here; forgetting them spares the drop code that the compiler cannot rule out.
            std::mem::forget((bound, cost, extras));
            return Self::now_borrowed(limiter, borrowed, subject);
        }
        Self { limiter, bound, subject, cost, readings, new_accounts, extras, mode }.now_owned()
    }

    fn now_owned(self) -> Result<Taken<'l>, TakeError> {
        match self.decide_fast() {
            Ok(taken) => Ok(taken),
            Err(take) => take.into_pending()?.decide_now(),
        }
    }

    /// For a take that borrows everything from a handle, the common case on the fast path.
    #[inline(always)]
    fn now_borrowed(
        limiter: &'l Limiter,
        bound: &'l Arc<BoundPolicy>,
        subject: &'l str,
    ) -> Result<Taken<'l>, TakeError> {
        match bound.decide_fast(subject, None) {
            Some(FastDecision::Granted { now, good_until }) => {
                Ok(Taken::Granted(Granted::borrowed(bound, subject, now, good_until)))
            }
            Some(denied) => Ok(Taken::Denied(Denied::fast(Arc::clone(bound), denied))),
            None => Self::slow_now(limiter, bound, subject),
        }
    }

    #[cold]
    fn slow_now(
        limiter: &'l Limiter,
        bound: &'l Arc<BoundPolicy>,
        subject: &'l str,
    ) -> Result<Taken<'l>, TakeError> {
        Self::new(limiter, Ok(BoundRef::Borrowed(bound))).subject(subject).into_pending()?.decide_now()
    }

    /// The fast path, where it applies; otherwise nothing has happened.
    fn decide_fast(self) -> Result<Taken<'l>, Self> {
        if self.extras.is_some() {
            return self.decide_with_extras();
        }
        let Ok(bound) = &self.bound else { return Err(self) };
        if self.readings {
            return self.decide_and_read();
        }
        match bound.decide_fast(self.subject, self.cost.as_ref()) {
            None => Err(self),
            Some(decided) => self.taken_fast(decided),
        }
    }

    fn taken_fast(self, decided: FastDecision) -> Result<Taken<'l>, Self> {
        match (self.bound, decided) {
            (Err(error), _) => Err(Self { bound: Err(error), ..self }),
            (Ok(bound), FastDecision::Granted { now, good_until }) => {
                let (subject, cost) = (self.subject, self.cost);
                let fast = FastGrant { bound, subject, cost, now, good_until, extras: None };
                Ok(Taken::Granted(Granted::fast(fast)))
            }
            (Ok(bound), denied @ FastDecision::Denied { .. }) => {
                Ok(Taken::Denied(Denied::fast(bound.into_arc(), denied)))
            }
        }
    }

    /// The same with an id, or under several policies; not with both.
    #[inline(never)]
    fn decide_with_extras(mut self) -> Result<Taken<'l>, Self> {
        let (Ok(bound), Some(extras), false, NewAccounts::Make) =
            (&self.bound, &mut self.extras, self.readings, self.new_accounts)
        else {
            return Err(self);
        };
        let cost = self.cost.as_ref().unwrap_or(bound.policy.default_cost());
        let decided = match (&extras.call, &*extras.charges) {
            (Some(call), []) => {
                let permit = *extras.permit.insert(next_permit());
                bound.decide_fast_once(self.subject, cost, call, permit)
            }
            (None, others @ [_, ..]) => bound.grant_fast_together(self.subject, cost, others),
            _ => None,
        };
        match (decided, self) {
            (
                Some(FastDecision::Granted { now, good_until }),
                Self { bound: Ok(bound), subject, cost, extras, .. },
            ) => {
                let fast = FastGrant { bound, subject, cost, now, good_until, extras };
                Ok(Taken::Granted(Granted::fast(fast)))
            }
            (Some(denied), Self { bound: Ok(bound), .. }) => {
                Ok(Taken::Denied(Denied::fast(bound.into_arc(), denied)))
            }
            (_, take) => Err(take),
        }
    }

    /// The same, with a reading of every limit.
    fn decide_and_read(self) -> Result<Taken<'l>, Self> {
        let Ok(bound) = &self.bound else { return Err(self) };
        let cost = self.cost.as_ref().unwrap_or(bound.policy.default_cost());
        let mut readings = Vec::with_capacity(bound.policy.limits().len());
        let Some(decided) = bound.decide_and_read(self.subject, cost, |reading| readings.push(reading))
        else {
            return Err(self);
        };
        let status = ChargeStatus { policy: Arc::clone(&bound.policy), readings, held_until: None };
        let charges = SmallVec::from_buf([status]);
        self.taken_fast(decided).map(|taken| taken.with_readings(charges))
    }
}

impl PendingTake {
    /// The slow path: through the store's one method.
    fn decide_now(self) -> Result<Taken<'static>, TakeError> {
        self.state().check_may_block()?;
        let taken = self.block_on_store();
        count(&taken);
        taken
    }

    fn block_on_store(mut self) -> Result<Taken<'static>, TakeError> {
        if self.may_lease() {
            let state = Arc::clone(self.state());
            return state.timers.block_on(self.send_and_wait(Span::ZERO))?;
        }
        let (sent, answer) = self.send(Span::ZERO);
        let result = match answer {
            Answer::Now(Some(result)) => result,
            later => self.state().timers.block_on(later)?,
        };
        self.conclude(sent, result)
    }
}

impl<'l> IntoFuture for Take<'l, Tries> {
    type Output = Result<Taken<'l>, TakeError>;
    type IntoFuture = Trying<'l>;

    fn into_future(self) -> Trying<'l> {
        Trying(match self.decide_fast() {
            Ok(taken) => Step::Decided(taken),
            Err(take) => take.into_pending().map_or_else(Step::Failed, |take| Step::Start(Box::new(take))),
        })
    }
}

/// A take that was sent and is about to be answered. Written by hand, so that it needs no allocation where the answer is
/// there at once.
pub struct Trying<'l>(Step<'l>);

enum Step<'l> {
    Decided(Taken<'l>),
    Start(Box<PendingTake>),
    Leased(Pin<Box<dyn Future<Output = Result<Taken<'static>, TakeError>> + Send>>),
    Sent(Box<PendingTake>, Attempt, Box<InFlight>),
    Failed(TakeError),
    Over,
}

impl<'l> Future for Trying<'l> {
    type Output = Result<Taken<'l>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (take, sent, mut answer) = match std::mem::replace(&mut self.0, Step::Over) {
            Step::Decided(taken) => return Poll::Ready(Ok(taken)),
            Step::Start(mut take) if take.may_lease() => {
                self.0 = Step::Leased(Box::pin(async move {
                    let taken = take.send_and_wait(Span::ZERO).await;
                    count(&taken);
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
            Step::Start(mut take) => {
                let (sent, answer) = take.send(Span::ZERO);
                if let Answer::Now(Some(result)) = answer {
                    return Poll::Ready(concluded(*take, sent, result));
                }
                let answer = Box::new(take.in_flight(answer));
                (take, sent, answer)
            }
            Step::Sent(take, sent, answer) => (take, sent, answer),
            Step::Failed(error) => return Poll::Ready(Err(error)),
            // Polled after it was ready: a caller's mistake that must not end the process.
            Step::Over => return Poll::Pending,
        };
        match Pin::new(&mut *answer).poll(context) {
            Poll::Ready(result) => Poll::Ready(concluded(*take, sent, result)),
            Poll::Pending => {
                self.0 = Step::Sent(take, sent, answer);
                Poll::Pending
            }
        }
    }
}

fn concluded(take: PendingTake, sent: Attempt, result: StoreResult) -> Result<Taken<'static>, TakeError> {
    let taken = take.conclude(sent, result);
    count(&taken);
    taken
}
