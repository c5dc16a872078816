//! The layer: its policies, their subjects and costs, and its options.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollway::{Denied, PolicyHandle};
use tollway_inbound::headers::{CallerKind, HeaderChoice};
use tower_layer::Layer;

use crate::options::LayerOptions;
use crate::problem::Problem;
use crate::rules::{CountedRequest, Counting, RequestCharge, Rules};
use crate::{RateLimit, SubjectFrom};

/// Limits requests before they reach a service.
///
/// ```
/// use axum::{Router, routing::get};
/// use tollway::Limiter;
/// use tollway_tower::{RateLimitLayer, SubjectFrom};
///
/// let limiter = Limiter::builder().policy("api", ["100 requests / minute", "10 concurrent"])?.build();
/// let limit = RateLimitLayer::new(limiter.policy("api")?).subject(SubjectFrom::header("x-api-key"));
/// let app: Router = Router::new().route("/", get(async || "hello")).layer(limit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A denied request gets 429 with `Retry-After` and the limit that denied it; it never waits. While the store is
/// unreachable, the policy's `when_store_fails` decides: `closed` returns 503. A gRPC request gets `RESOURCE_EXHAUSTED` or
/// `UNAVAILABLE` instead.
#[derive(Clone)]
pub struct RateLimitLayer {
    rules: PolicyRules,
    options: LayerOptions,
}

/// The charges of a request.
#[derive(Clone)]
pub(crate) struct PolicyRules {
    charge: ChargeRules,
    /// Further charges of the same take.
    others: Vec<ChargeRules>,
}

/// What a request takes under one policy.
#[derive(Clone)]
struct ChargeRules {
    handle: PolicyHandle,
    /// `None`: all requests share one subject.
    subject: Option<SubjectFrom>,
    costs: Vec<(String, Arc<ReadCost>)>,
}

type ReadCost = dyn Fn(&Parts) -> u64 + Send + Sync;

impl RateLimitLayer {
    /// Limits all requests together under a policy.
    pub fn new(handle: PolicyHandle) -> Self {
        let rules = PolicyRules { charge: ChargeRules::new(handle), others: Vec::new() };
        Self { rules, options: LayerOptions::default() }
    }

    /// Also limits requests under another policy of the same limiter, all or nothing: a request that one policy denies
    /// spends nothing of the others. `subject` and `cost` that follow are of this policy.
    ///
    /// Two layers around each other are two takes instead: a denial of the inner one leaves the outer one spent.
    ///
    /// ```
    /// # use tollway::Limiter;
    /// # use tollway_tower::{RateLimitLayer, SubjectFrom};
    /// let limiter =
    ///     Limiter::builder().policy("keys", ["100 / minute"])?.policy("everybody", ["1000 / minute"])?.build();
    /// let limit = RateLimitLayer::new(limiter.policy("keys")?)
    ///     .subject(SubjectFrom::header("x-api-key"))
    ///     .and(limiter.policy("everybody")?);
    /// # let _ = limit;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn and(self, handle: PolicyHandle) -> Self {
        self.with(|layer| layer.rules.others.push(ChargeRules::new(handle)))
    }

    /// Limits each subject separately, under the policy named last.
    #[must_use]
    pub fn subject(self, from: SubjectFrom) -> Self {
        self.with(|layer| layer.rules.last().subject = Some(from))
    }

    /// How much of a unit a request costs under the policy named last. The default cost is one request.
    ///
    /// ```
    /// # let limiter = tollway::Limiter::builder().policy("upload", ["1G bytes / hour bucket"]).unwrap().build();
    /// # let layer = tollway_tower::RateLimitLayer::new(limiter.policy("upload").unwrap());
    /// let by_size = layer.cost("bytes", |request| {
    ///     let length = request.headers.get("content-length").and_then(|length| length.to_str().ok());
    ///     length.and_then(|length| length.parse().ok()).unwrap_or(0)
    /// });
    /// ```
    #[must_use]
    pub fn cost(self, unit: &str, of: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|layer| layer.rules.last().costs.push((unit.to_owned(), Arc::new(of))))
    }

    /// Which headers a response has besides `Retry-After`; all of them by default.
    #[must_use]
    pub fn headers(self, choice: HeaderChoice) -> Self {
        self.with(|layer| layer.options.headers = choice)
    }

    /// Passes the requests that this holds for to the service without counting them. With several, one is enough.
    ///
    /// ```
    /// # let limiter = tollway::Limiter::builder().policy("api", ["100 / minute"]).unwrap().build();
    /// # let layer = tollway_tower::RateLimitLayer::new(limiter.policy("api").unwrap());
    /// let layer = layer.skip(|request| request.uri.path() == "/health");
    /// ```
    #[must_use]
    pub fn skip(self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|layer| layer.options.add_skip(skip))
    }

    /// Changes the response to a denied request before it is sent. Status, headers and body that this leaves alone stay: 429,
    /// the rate limit headers, and JSON. Not called for gRPC requests, whose denials have no body.
    ///
    /// ```
    /// use http::header::{CONTENT_TYPE, HeaderValue};
    /// # let limiter = tollway::Limiter::builder().policy("api", ["100 / minute"]).unwrap().build();
    /// # let layer = tollway_tower::RateLimitLayer::new(limiter.policy("api").unwrap());
    ///
    /// let layer = layer.on_denied(|request, denied, response| {
    ///     let seconds = denied.retry_after().as_secs() + 1;
    ///     *response.body_mut() = format!("{}: try again in {seconds} s\n", request.uri.path()).into();
    ///     response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    /// });
    /// ```
    #[must_use]
    pub fn on_denied(
        self,
        change: impl Fn(&Parts, &Denied, &mut Response<Bytes>) + Send + Sync + 'static,
    ) -> Self {
        self.with(|layer| layer.options.set_on_denied(change))
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        let (counting, options) = (Counting::Policy(self.rules.clone()), self.options.clone());
        RateLimit::new(inner, Arc::new(Rules { options, counting }))
    }
}

impl PolicyRules {
    pub(crate) fn counted(&self, request: &Parts) -> Result<CountedRequest<'_>, Problem> {
        let charges = std::iter::once(&self.charge).chain(&self.others);
        let charges = charges.map(|charge| charge.of(request)).collect::<Result<_, Problem>>()?;
        Ok(CountedRequest { charges, caller: CallerKind::Subject })
    }

    /// The charge that the builder's calls are about.
    fn last(&mut self) -> &mut ChargeRules {
        self.others.last_mut().unwrap_or(&mut self.charge)
    }
}

impl ChargeRules {
    fn new(handle: PolicyHandle) -> Self {
        Self { handle, subject: None, costs: Vec::new() }
    }

    fn of(&self, request: &Parts) -> Result<RequestCharge<'_>, Problem> {
        let subject = self.subject.as_ref().map_or(Ok(String::new()), |from| from.find(request))?;
        let amounts = self.costs.iter().map(|(unit, read)| (unit.as_str(), read(request))).collect();
        Ok(RequestCharge { handle: Cow::Borrowed(&self.handle), subject, amounts })
    }
}
