//! One call of a vendor: take, begin, send, observe, feed back; again if it was refused, within its budget.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Buf;
use http::{Method, Response};
use http_body::Body;
use tokio::runtime::Handle;
use tollway::config::{Api, ApiEndpoint};
use tollway::core::{Name, NameError, Subject};
use tollway::{Span, Timestamp};
use tollway_dialects::{RefusalKind, VendorResponse, is_stream};

use crate::acquire::Wanted;
use crate::answer::OWN_WAIT;
use crate::body::{ApiBody, ReadAhead, Settlement};
use crate::error::{Attempt, Attempts, BoxError, CallError, CallFailure};
use crate::gate::Priority;
use crate::limiter::{ApiLimiter, ApiState, dialect_of};
use crate::permits::Permits;

/// How long the body of an answer is waited for at least, even if the attempt's time is nearly over.
const BODY_TIME_MIN: Duration = Duration::from_secs(1);

/// The longest wait of a call that was refused for a reason that holds back no other call.
const OWN_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a caller says about one call, instead of what the api's config says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    pub(crate) cost: Vec<(Name, u64)>,
    pub(crate) priority: Priority,
    pub(crate) max_time: Option<Duration>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) returns_refusals: bool,
    /// A policy of the caller's, and its subject there.
    pub(crate) share: Option<(Name, Subject)>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) backoff_codes: Option<Arc<[u16]>>,
}

impl CallOptions {
    /// Nothing but what the config says.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the call costs in a unit, instead of the estimate.
    pub fn cost(mut self, unit: &str, amount: u64) -> Result<Self, NameError> {
        let unit = Name::new(unit)?;
        self.cost.retain(|(known, _)| *known != unit);
        self.cost.push((unit, amount));
        Ok(self)
    }

    /// Which calls of this process go first.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// How long the call may take with all its waits and retries.
    #[must_use]
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// How long the call may wait for its permits, all attempts together. A call whose time is known to be later fails at
    /// once, and [`CallError::retry_after`] says how much later.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait: Some(max_wait), ..self }
    }

    /// Takes a permit of this policy, too: the share of one subject of what the vendor allows.
    pub fn share(self, policy: &Name, subject: &str) -> Result<Self, NameError> {
        let subject = if subject.is_empty() { Subject::SHARED } else { Subject::new(subject)? };
        Ok(Self { share: Some((policy.clone(), subject)), ..self })
    }

    /// Returns the vendor's last refusal as an answer, instead of an error that describes it. The last of its [`Attempts`]
    /// says that it is one.
    #[must_use]
    pub fn return_refusals(self) -> Self {
        Self { returns_refusals: true, ..self }
    }

    /// How often it is sent again after a refusal.
    #[must_use]
    pub fn max_retries(self, max_retries: u32) -> Self {
        Self { max_retries: Some(max_retries), ..self }
    }

    /// The statuses that mean "call later".
    #[must_use]
    pub fn backoff_codes(self, codes: impl IntoIterator<Item = u16>) -> Self {
        Self { backoff_codes: Some(codes.into_iter().collect()), ..self }
    }
}

/// A way to send one request, several times if it has to be.
pub(crate) trait Exchange: Send {
    /// The body of an answer.
    type Body: Body<Data: Buf + Send, Error: Into<BoxError>> + Send + Unpin;

    /// Whether the request can be sent again after it was.
    fn can_repeat(&self) -> bool;

    /// Sends the request; `None` if its body cannot be sent again.
    fn send(&mut self) -> impl Future<Output = Option<Result<Response<Self::Body>, SendError>>> + Send;
}

/// A request that got no answer.
pub(crate) struct SendError {
    pub(crate) error: BoxError,
    /// Whether the vendor certainly did not get it.
    pub(crate) unsent: bool,
}

/// A call, as far as limits are concerned.
pub(crate) struct VendorCall<'c> {
    pub(crate) method: &'c Method,
    /// Of the whole URL, without its query.
    pub(crate) path: &'c str,
    /// The body, if it is in memory.
    pub(crate) body: Option<&'c [u8]>,
    pub(crate) body_bytes: u64,
    pub(crate) options: &'c CallOptions,
}

/// What is known of a call before it is sent, for [`ApiLimiter::cost_from`].
#[derive(Clone, Copy, Debug)]
pub struct CallSketch<'c> {
    /// Its method.
    pub method: &'c Method,
    /// The path of its whole URL, without the query.
    pub path: &'c str,
    /// Its body, if it is in memory.
    pub body: Option<&'c [u8]>,
    /// The length of its body, as far as it is known.
    pub body_bytes: u64,
}

/// Why an attempt has no answer to pass on.
enum NoAnswer<B> {
    /// With the vendor's answer, as far as it was read.
    Refused(RefusalKind, Box<Response<ApiBody<B>>>),
    Failed(CallFailure),
}

type Sent<B> = Result<Response<ApiBody<B>>, NoAnswer<B>>;

impl ApiLimiter {
    /// Sends a call, and again if the vendor refuses it, within its budget.
    pub(crate) async fn call<X: Exchange>(
        &self,
        call: VendorCall<'_>,
        exchange: &mut X,
    ) -> Result<Response<ApiBody<X::Body>>, CallError> {
        let api = self.api();
        let mut running = Running::new(self, Arc::clone(&api), &call);
        let mut refusal = None;
        loop {
            let failure = match running.attempt(exchange).await {
                Ok(response) => return Ok(running.answer(response)),
                Err(NoAnswer::Failed(failure)) => failure,
                Err(NoAnswer::Refused(kind, response)) => {
                    refusal = call.options.returns_refusals.then_some(response);
                    match kind {
                        RefusalKind::NoAccess => CallFailure::NoAccess,
                        _ if running.attempts.len() > running.retries => CallFailure::Refused,
                        _ if !exchange.can_repeat() => CallFailure::CannotRepeat,
                        kind if running.own_wait(kind).await => continue,
                        _ => CallFailure::Refused,
                    }
                }
            };
            // An attempt that was sent after it has failed in another way.
            let was_refused = running.attempts.last().is_some_and(|attempt| attempt.refusal.is_some());
            return match refusal.filter(|_| was_refused) {
                Some(refusal) => Ok(running.answer(*refusal)),
                None => Err(CallError { api: api.name().clone(), failure, attempts: running.attempts }),
            };
        }
    }
}

/// A call between its first attempt and its last.
struct Running<'c> {
    limiter: &'c ApiLimiter,
    api: Arc<Api>,
    endpoint: Option<ApiEndpoint>,
    options: &'c CallOptions,
    cost: Vec<(Name, u64)>,
    deadline: Timestamp,
    /// Until when it may wait for permits; not after `deadline`.
    wait_deadline: Timestamp,
    retries: usize,
    attempts: Vec<Attempt>,
}

impl<'c> Running<'c> {
    fn new(limiter: &'c ApiLimiter, api: Arc<Api>, call: &VendorCall<'c>) -> Self {
        let endpoint = api.endpoint(call.method.as_str(), call.path).cloned();
        let of_endpoint = endpoint.as_ref().map(ApiEndpoint::cost).filter(|cost| !cost.is_empty());
        let configured = of_endpoint.unwrap_or(api.cost()).iter();
        let configured = configured.map(|cost| (cost.unit().clone(), cost.estimate().of(call.body_bytes)));
        let mut cost = call.options.cost.clone();
        // What the caller says goes before the estimate of the program, and that before the config's.
        for (unit, amount) in limiter.estimate(call).into_iter().chain(configured) {
            if !cost.iter().any(|(known, _)| *known == unit) {
                cost.push((unit, amount));
            }
        }
        let max_time = call.options.max_time.map_or(api.max_time(), Span::from);
        let retries = call.options.max_retries.unwrap_or(api.max_retries());
        let now = limiter.state.now();
        let deadline = now.plus(max_time);
        let max_wait = call.options.max_wait.map_or(max_time, Span::from);
        Self {
            limiter,
            endpoint,
            options: call.options,
            cost,
            deadline,
            wait_deadline: deadline.min(now.plus(max_wait)),
            retries: usize::try_from(retries).unwrap_or(usize::MAX),
            attempts: Vec::new(),
            api,
        }
    }

    fn state(&self) -> &'c Arc<ApiState> {
        &self.limiter.state
    }

    /// The answer of the call, with its attempts.
    fn answer<B>(self, mut response: Response<ApiBody<B>>) -> Response<ApiBody<B>> {
        response.extensions_mut().insert(Attempts(self.attempts));
        response
    }

    async fn attempt<X: Exchange>(&mut self, exchange: &mut X) -> Sent<X::Body> {
        let asked_at = self.state().now();
        let wanted = Wanted {
            api: &self.api,
            endpoint: self.endpoint.as_ref(),
            cost: &self.cost,
            share: self.options.share.as_ref(),
            priority: self.options.priority,
            deadline: self.wait_deadline,
            ends_at_once: self.options.max_wait.is_some(),
        };
        let mut permits = self.state().acquire(&wanted).await.map_err(NoAnswer::Failed)?;
        let at = self.state().now();
        let timeout = Duration::from(self.api.timeout()).min(self.deadline.since(at).into());
        if timeout.is_zero() {
            // Its time is over. What was taken goes back.
            let failure = CallFailure::NoTurn { waiting: self.state().gate.waiting() };
            return Err(NoAnswer::Failed(if self.attempts.is_empty() {
                failure
            } else {
                CallFailure::Refused
            }));
        }
        let waited = at.since(asked_at).into();
        self.attempts.push(Attempt::new(at, waited));
        permits.sent();
        let in_flight = InFlight::new(self.state());
        let sent = tokio::time::timeout(timeout, pin!(exchange.send())).await;
        let (failure, unsent) = match sent {
            Err(_) => (CallFailure::Timeout(timeout), false),
            Ok(None) => return Err(NoAnswer::Failed(CallFailure::CannotRepeat)),
            Ok(Some(Err(SendError { error, unsent }))) => (CallFailure::Send(error), unsent),
            Ok(Some(Ok(response))) => {
                let left = timeout.saturating_sub(self.state().now().since(at).into());
                let answered = self.answered(response, permits, left, exchange.can_repeat()).await;
                drop(in_flight);
                return answered;
            }
        };
        self.state().failed(&permits, failure.to_string());
        // The vendor may have counted a call that was sent: the estimate stays spent.
        match unsent {
            true => permits.give_back(),
            false => permits.over(),
        }
        Err(NoAnswer::Failed(failure))
    }

    /// Reads what an answer says about limits, and tells the store. `left` is the rest of the attempt's time.
    async fn answered<B>(
        &mut self,
        response: Response<B>,
        mut permits: Permits,
        left: Duration,
        can_repeat: bool,
    ) -> Sent<B>
    where
        B: Body<Data: Buf + Send, Error: Into<BoxError>> + Send + Unpin,
    {
        let (parts, body) = response.into_parts();
        let dialect = dialect_of(&self.api, &parts.headers);
        let mut body = ReadAhead::nothing(body);
        if let Some(need) = dialect.body_need(parts.status, &parts.headers, self.limiter.hook().is_some()) {
            // A refusal is one also if its body does not come: its headers say enough.
            body.read(need, parts.status.is_success(), left.max(BODY_TIME_MIN)).await;
        }
        let answer = VendorResponse { status: parts.status, headers: &parts.headers, body: body.ahead() };
        let codes = self.options.backoff_codes.as_deref().unwrap_or(self.api.backoff_codes());
        // The answer of the last attempt is the caller's.
        let may_wait = |wait| {
            let fits = wait < Duration::from(self.deadline.since(self.state().now()));
            can_repeat && fits && self.attempts.len() <= self.retries
        };
        let read = self.limiter.read_answer(dialect, codes, &answer, may_wait);
        if let Some(attempt) = self.attempts.last_mut() {
            read.note_in(attempt);
        }
        if let Some(kind) = read.refusal {
            let attempt = self.attempts.last().map(Attempt::to_string).unwrap_or_default();
            self.state().take_in_refusal(&self.api, kind, read, permits, attempt).await;
            let refused = Response::from_parts(parts, body.into_settled_body());
            return Err(NoAnswer::Refused(kind, Box::new(refused)));
        }
        self.state().take_in(&self.api, &read, &mut permits).await;
        if !is_stream(&parts.headers) {
            permits.land();
        }
        let settlement = Settlement { permits, dialect, runtime: Handle::try_current().ok() };
        Ok(Response::from_parts(parts, body.into_body(settlement)))
    }

    /// The wait of this call alone, for refusals that hold back no other call; the others wait for their next permit. False
    /// if it is longer than the call may take.
    async fn own_wait(&self, kind: RefusalKind) -> bool {
        if !matches!(kind, RefusalKind::Concurrency | RefusalKind::Lock) {
            return true;
        }
        let told = self.attempts.last().and_then(|attempt| attempt.wait);
        let doublings = u32::try_from(self.attempts.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let grown = OWN_WAIT.saturating_mul(2_u32.saturating_pow(doublings)).min(OWN_WAIT_MAX);
        // Half of it at random, so that calls that collided do not collide again.
        let wait = told.unwrap_or_else(|| grown / 2 + grown.mul_f64(jitter() / 2.0));
        let fits = wait < Duration::from(self.wait_deadline.since(self.state().now()));
        if fits {
            tokio::time::sleep(wait).await;
        }
        fits
    }
}

/// A number from 0 to 1 that differs from call to call: of the hasher's random keys.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish() >> 32;
    #[allow(clippy::cast_precision_loss, reason = "32 bits fit")]
    let share = bits as f64 / f64::from(u32::MAX);
    share
}

/// Counts a call as in flight until it is dropped.
struct InFlight<'s>(&'s ApiState);

impl<'s> InFlight<'s> {
    fn new(state: &'s ApiState) -> Self {
        state.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
