//! The limits of one api in this process: what all ways in share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tollway::config::Api;
use tollway::core::{Feedback, Learned, Name, Subject};
use tollway::metrics::{ApiFigures, NotSent};
use tollway::{Limiter, PolicyHandle, Span, TakeError, Timestamp};
use tollway_dialects::{Dialect, RefusalKind, VendorResponse};

use crate::attempts::{CallSketch, VendorCall};
use crate::error::{CallFailure, ClientError};
use crate::feedback::ceiling;
use crate::gate::Gate;
use crate::in_flight::InFlight;
use crate::reporter::Seen;
use crate::tls::use_ring;
use crate::unfinished::Unfinished;

/// Tells whether a response is a refusal, for vendors that refuse in their own way.
pub(crate) type RefusedAs = Arc<dyn Fn(&VendorResponse<'_>) -> Option<RefusalKind> + Send + Sync>;

/// Estimates what a call costs, by unit.
pub(crate) type CostFrom = Arc<dyn Fn(&CallSketch<'_>) -> Vec<(String, u64)> + Send + Sync>;

/// The limits of one api: its policy, its slots, and what its answers have taught. Clones share it.
///
/// [`ApiClient`](crate::ApiClient), the middleware and the tower layer call a vendor through it.
///
/// ```
/// use tollway::{Limiter, config::Api};
/// use tollway_client::ApiLimiter;
///
/// let notion = Api::profile("notion").ok_or("no such profile")?;
/// let limiter = Limiter::builder().with_api(notion)?.build();
/// let notion = ApiLimiter::new(&limiter, "notion")?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let snapshot = notion.snapshot().await?;
/// assert_eq!((snapshot.current_rate, snapshot.cooldown_until), (Some(2.0), None));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ApiLimiter {
    pub(crate) state: Arc<ApiState>,
    refused_as: Option<RefusedAs>,
    cost_from: Option<CostFrom>,
}

/// Shared by all clones.
pub(crate) struct ApiState {
    pub(crate) limiter: Limiter,
    name: Name,
    /// As it was at the start. A reload replaces it, one that removes it does not.
    first: Arc<Api>,
    /// The vendor account that calls count for.
    pub(crate) account: Subject,
    pub(crate) gate: Arc<Gate>,
    pub(crate) seen: Mutex<Seen>,
    /// Told when this process has written another rate.
    pub(crate) rate_changed: Notify,
    /// Whether a task tells the store of the hold of this process.
    pub(crate) telling_hold: AtomicBool,
    /// A hold that the store did not take: until when this process waits by itself, by its clock, in microseconds.
    held_until: AtomicU64,
    /// Calls that were sent and have no answer yet.
    pub(crate) in_flight: AtomicU64,
    /// As many calls as the vendor runs at the same time.
    pub(crate) flights: Arc<InFlight>,
    /// What goes on after its call has returned.
    pub(crate) unfinished: Arc<Unfinished>,
    /// Policies that were looked up. As many as the api and its endpoints name.
    handles: Mutex<HashMap<Name, Arc<PolicyHandle>>>,
    pub(crate) figures: Arc<ApiFigures>,
}

/// The state of an api's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiSnapshot {
    /// Calls a second, of an api with a `rate`.
    pub current_rate: Option<f64>,
    /// Calls that could be made at once under that rate.
    pub tokens: Option<u64>,
    /// Until when the vendor holds calls back, in the store's time.
    pub cooldown_until: Option<Timestamp>,
    /// The vendor's limit as it was measured, in calls a second; known to `rate = "auto"` after the first refusals.
    pub ceiling: Option<f64>,
    /// The store's time.
    pub now: Timestamp,
    /// Calls of this process that wait for their turn.
    pub waiting: usize,
    /// Calls of this process that have no answer yet.
    pub in_flight: u64,
}

impl ApiLimiter {
    /// The limits of an api of this limiter.
    pub fn new(limiter: &Limiter, api: &str) -> Result<Self, ClientError> {
        Self::of_account(limiter, api, Subject::SHARED)
    }

    /// The same for one of several accounts at the vendor, each with a budget of its own.
    pub fn for_account(limiter: &Limiter, api: &str, account: &str) -> Result<Self, ClientError> {
        Self::of_account(limiter, api, Subject::new(account)?)
    }

    fn of_account(limiter: &Limiter, api: &str, account: Subject) -> Result<Self, ClientError> {
        let first = limiter.api(api).ok_or_else(|| unknown(limiter, api))?;
        tracing::debug!(
            api = %first.name(),
            rate = ?first.rate(),
            policy = first.policy().map(Name::as_str),
            "calls of an api are limited"
        );
        let state = ApiState {
            figures: limiter.api_figures(first.name()),
            limiter: limiter.clone(),
            name: first.name().clone(),
            first,
            account,
            gate: Arc::default(),
            seen: Mutex::default(),
            rate_changed: Notify::new(),
            telling_hold: AtomicBool::new(false),
            held_until: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            flights: Arc::default(),
            unfinished: Arc::default(),
            handles: Mutex::default(),
        };
        use_ring();
        Ok(Self { state: Arc::new(state), refused_as: None, cost_from: None })
    }

    /// Calls this function first to learn whether a response is a refusal: for vendors that refuse inside a 200, or in words of
    /// their own. Bodies are then read ahead, up to 64 KiB, except streams: those of events, of lines of JSON and of content
    /// that is no text. Of a body without a length it sees what comes within a quarter of a second.
    #[must_use]
    pub fn refused_as(
        self,
        refused_as: impl Fn(&VendorResponse<'_>) -> Option<RefusalKind> + Send + Sync + 'static,
    ) -> Self {
        Self { refused_as: Some(Arc::new(refused_as)), ..self }
    }

    /// Estimates what calls cost with this function, before the `cost` of the config: a tokenizer, for example. Units that no
    /// limit counts are ignored, and so are names that are not units.
    ///
    /// ```
    /// # fn example(limiter: tollway_client::ApiLimiter) -> tollway_client::ApiLimiter {
    /// limiter.cost_from(|call| vec![("tokens".to_owned(), 200 + call.body_bytes / 3)])
    /// # }
    /// ```
    #[must_use]
    pub fn cost_from(
        self,
        cost: impl Fn(&CallSketch<'_>) -> Vec<(String, u64)> + Send + Sync + 'static,
    ) -> Self {
        Self { cost_from: Some(Arc::new(cost)), ..self }
    }

    pub(crate) fn estimate(&self, call: &VendorCall<'_>) -> Vec<(Name, u64)> {
        let Some(cost) = &self.cost_from else { return Vec::new() };
        let VendorCall { method, path, body, body_bytes, .. } = *call;
        let cost = cost(&CallSketch { method, path, body, body_bytes });
        cost.into_iter().filter_map(|(unit, amount)| Some((Name::new(&unit).ok()?, amount))).collect()
    }

    /// The api as it is in force.
    pub fn api(&self) -> Arc<Api> {
        self.state.api()
    }

    /// The limiter that its policies belong to.
    pub fn limiter(&self) -> &Limiter {
        &self.state.limiter
    }

    /// Tells the store now what was seen of the vendor's answers, instead of within a second, and waits for permits that go
    /// back and tokens that are settled. For programs that end soon.
    ///
    /// Dropping the last clone tells what was seen, too, but settles nothing, and blocks its thread for up to a second.
    pub async fn flush(&self) {
        self.state.unfinished.wait().await;
        let api = self.api();
        if let Some(policy) = api.policy().filter(|_| self.state.seen().is_unreported()) {
            self.state.report(policy, None).await;
        }
    }

    /// What the store knows about the api's limits now.
    pub async fn snapshot(&self) -> Result<ApiSnapshot, TakeError> {
        let learned = match self.api().policy() {
            Some(policy) => Some(self.state.feedback(policy, Feedback::default()).await?),
            None => None,
        };
        let rate = learned.as_ref().and_then(|learned| learned.rate.as_ref());
        Ok(ApiSnapshot {
            current_rate: rate.map(|rate| per_second(rate.rate)),
            tokens: rate.map(|rate| rate.available),
            cooldown_until: learned.as_ref().and_then(|learned| learned.held_until),
            ceiling: rate.and_then(|rate| ceiling(&rate.controller)).map(per_second),
            now: learned.as_ref().map_or_else(|| self.state.now(), |learned| learned.now),
            waiting: self.state.gate.waiting(),
            in_flight: self.state.in_flight.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn hook(&self) -> Option<&RefusedAs> {
        self.refused_as.as_ref()
    }
}

impl ApiState {
    pub(crate) fn api(&self) -> Arc<Api> {
        self.limiter.api(self.name.as_str()).unwrap_or_else(|| Arc::clone(&self.first))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.limiter.clock().now()
    }

    /// A policy, looked up once.
    pub(crate) fn handle(&self, policy: &Name) -> Result<Arc<PolicyHandle>, TakeError> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(policy) {
            return Ok(Arc::clone(handle));
        }
        let handle = Arc::new(self.limiter.policy(policy.as_str())?);
        handles.insert(policy.clone(), Arc::clone(&handle));
        Ok(handle)
    }

    /// Tells the store, and returns what it knows.
    pub(crate) async fn feedback(&self, policy: &Name, feedback: Feedback) -> Result<Learned, TakeError> {
        let learned = self.limiter.feedback(policy.as_str(), feedback).subject(self.account.as_str()).await?;
        let rate = learned.rate.as_ref();
        self.figures.set_rate(
            rate.map(|rate| rate.rate),
            rate.map(|rate| rate.available),
            rate.and_then(|rate| ceiling(&rate.controller)),
        );
        self.figures.set_held_for(learned.held_until.map(|until| until.since(learned.now)), self.now());
        Ok(learned)
    }

    /// Holds back the calls of this process alone.
    pub(crate) fn hold_here(&self, hold: Span) {
        self.held_until.fetch_max(self.now().plus(hold).as_micros(), Ordering::Relaxed);
    }

    /// How long this process waits by itself.
    pub(crate) fn held_here(&self) -> Span {
        Timestamp::from_micros(self.held_until.load(Ordering::Relaxed)).since(self.now())
    }

    /// Counts a call that ends before it is sent, if a limit or a hold ended it.
    pub(crate) fn count_not_sent(&self, failure: &CallFailure) {
        let why = match failure {
            CallFailure::Held(_) => Some(NotSent::Hold),
            CallFailure::NoTurn { .. } | CallFailure::LateTurn { .. } | CallFailure::TooManyWaiting => {
                Some(NotSent::Queue)
            }
            CallFailure::NoPermit(error) => error.denied().and_then(|denied| match denied.held() {
                true if !denied.stopped() => Some(NotSent::Hold),
                _ => denied.limit().map(|limit| NotSent::Limit(limit.name().clone())),
            }),
            _ => None,
        };
        if let Some(why) = why {
            self.figures.count_not_sent(why);
            self.note_own_refusal(failure);
        }
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the vendor of an api tells its limits, in this response.
pub(crate) fn dialect_of(api: &Api, headers: &http::HeaderMap) -> &'static Dialect {
    api.dialect().unwrap_or_else(|| Dialect::detect(headers))
}

fn unknown(limiter: &Limiter, name: &str) -> ClientError {
    let apis = limiter.apis();
    let known = apis.iter().map(|api| api.name().as_str());
    let profiles = Api::profiles().iter().map(|api| api.name().as_str());
    let meant = tollway::core::nearest(name, known.chain(profiles)).map(str::to_owned);
    ClientError::UnknownApi { name: name.to_owned(), meant }
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people and gauges")]
fn per_second(millionths: u64) -> f64 {
    millionths as f64 / 1_000_000.0
}

impl fmt::Debug for ApiLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApiState { name, account, .. } = &*self.state;
        f.debug_struct("ApiLimiter").field("api", name).field("account", account).finish_non_exhaustive()
    }
}

impl fmt::Debug for ApiState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, account, .. } = self;
        f.debug_struct("ApiState").field("api", name).field("account", account).finish_non_exhaustive()
    }
}
