//! The layer for consumers: each caller has its own limits, from records.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use smallvec::{SmallVec, smallvec};
use tollway::{Denied, PolicyHandle};
use tollway_consumers::{ConsumerId, Gate, RecordsError, Who, WhoError};
use tollway_inbound::Admission;
use tollway_inbound::address::AddressRules;
use tollway_inbound::headers::{CallerKind, HeaderChoice};
use tollway_inbound::problem::ProblemDetails;
use tower_layer::Layer;

use crate::RateLimit;
use crate::options::LayerOptions;
use crate::problem::Problem;
use crate::rules::{CountedRequest, Counting, RequestCharge, Rules};
use crate::subject::{ReadPeer, client_address};

/// Limits each consumer by its records before its requests reach a service.
///
/// ```
/// # use std::net::SocketAddr;
/// # use std::sync::Arc;
/// # use axum::extract::ConnectInfo;
/// use axum::{Router, routing::get};
/// use tollway::Limiter;
/// use tollway_tower::ConsumersLayer;
/// use tollway_tower::address::AddressRules;
/// use tollway_tower::consumers::{ANONYMOUS_POLICY, ConfigWithConsumers, Gate, Who, open_records};
///
/// let config = ConfigWithConsumers::parse("[consumers]\nheader = 'x-consumer-id'\nrecords = 'sqlite::memory:'")?;
/// let limiter = Limiter::builder().config(config.limits())?.build();
/// let consumers = config.consumers().cloned().unwrap_or_default();
/// let records = open_records(&consumers.records.connection_url()?)?;
/// let gate = Arc::new(Gate::new(limiter.clone(), records, &consumers)?);
///
/// let limits = ConsumersLayer::new(gate, Who::new(&consumers.who)?)
///     .anonymous(limiter.policy(ANONYMOUS_POLICY)?, AddressRules::default(), |request| {
///         request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
///     });
/// let app: Router = Router::new().route("/accounts", get(async || "yours")).layer(limits);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A consumer over its limit gets 429 with the limit that denied it, a blocked one 403. An unknown token gets 401, a
/// malformed consumer id 400. A request without credentials is anonymous. While the store or the records are unreachable,
/// `when_store_fails` of `[consumers]` decides.
#[derive(Clone)]
pub struct ConsumersLayer {
    rules: ConsumerRules,
    options: LayerOptions,
}

/// How requests are counted.
#[derive(Clone)]
pub(crate) struct ConsumerRules {
    gate: Arc<Gate>,
    who: Arc<Who>,
    /// `None`: requests without credentials are not limited.
    anonymous: Option<Anonymous>,
}

/// How requests without credentials are limited.
#[derive(Clone)]
struct Anonymous {
    handle: PolicyHandle,
    rules: AddressRules,
    peer: Arc<ReadPeer>,
}

impl ConsumersLayer {
    /// Limits consumers; `who` identifies them.
    pub fn new(gate: Arc<Gate>, who: Who) -> Self {
        let rules = ConsumerRules { gate, who: Arc::new(who), anonymous: None };
        Self { rules, options: LayerOptions::default() }
    }

    /// Limits requests without credentials by address. The rules say which forwarding headers are trusted, and `peer`
    /// returns the remote address of the connection, as in [`SubjectFrom::address`](crate::SubjectFrom::address).
    #[must_use]
    pub fn anonymous(
        mut self,
        handle: PolicyHandle,
        rules: AddressRules,
        peer: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.rules.anonymous = Some(Anonymous { handle, rules, peer: Arc::new(peer) });
        self
    }

    /// Which headers a response has besides `Retry-After`; all of them by default.
    #[must_use]
    pub fn headers(mut self, headers: HeaderChoice) -> Self {
        self.options.headers = headers;
        self
    }

    /// Passes the requests that this holds for to the service without counting them, as
    /// [`RateLimitLayer::skip`](crate::RateLimitLayer::skip) does.
    #[must_use]
    pub fn skip(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.options.add_skip(skip);
        self
    }

    /// Changes the response to a denied request before it is sent, as
    /// [`RateLimitLayer::on_denied`](crate::RateLimitLayer::on_denied) does.
    #[must_use]
    pub fn on_denied(
        mut self,
        change: impl Fn(&Parts, &Denied, &mut Response<Bytes>) + Send + Sync + 'static,
    ) -> Self {
        self.options.set_on_denied(change);
        self
    }
}

impl<S> Layer<S> for ConsumersLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        let (counting, options) = (Counting::Consumers(self.rules.clone()), self.options.clone());
        RateLimit::new(inner, Arc::new(Rules { options, counting }))
    }
}

impl ConsumerRules {
    pub(crate) async fn admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
        for name in self.who.headers() {
            if request.headers.get_all(name).iter().nth(1).is_some() {
                return Err(Problem::not_a_subject(format!("the header {name} occurs twice")));
            }
        }
        let shown = self.who.calls(|name| Some(request.headers.get(name)?.as_bytes()));
        match shown.map_err(|error| unknown_consumer(&error))? {
            Some(consumer) => self.consumer_admission(&consumer).await,
            None => self.anonymous_admission(request),
        }
    }

    async fn consumer_admission(
        &self,
        consumer: &ConsumerId,
    ) -> Result<Admission<CountedRequest<'_>>, Problem> {
        let admission = self.gate.admission(consumer).await.map_err(|error| no_records(&error))?;
        let counted = |handle| counted(Cow::Owned(handle), consumer.to_string(), CallerKind::Consumer);
        Ok(admission.map(counted))
    }

    fn anonymous_admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
        let Some(Anonymous { handle, rules, peer }) = &self.anonymous else { return Ok(Admission::Free) };
        if !self.gate.is_enabled() {
            return Ok(Admission::Free);
        }
        // The subject is the bare address, as in the stored keys of earlier systems.
        let address = client_address(rules, peer(request), request)?;
        Ok(Admission::Counted(counted(Cow::Borrowed(handle), address, CallerKind::Anonymous)))
    }
}

fn counted(handle: Cow<'_, PolicyHandle>, subject: String, caller: CallerKind) -> CountedRequest<'_> {
    let charges = smallvec![RequestCharge { handle, subject, amounts: SmallVec::new() }];
    CountedRequest { charges, caller }
}

fn unknown_consumer(error: &WhoError) -> Problem {
    let detail = error.to_string();
    Problem(match error {
        WhoError::UnknownToken(_) => ProblemDetails::unknown_token(detail),
        WhoError::NotText(_) | WhoError::NotAConsumer { .. } => ProblemDetails::unknown_consumer(detail),
    })
}

fn no_records(error: &RecordsError) -> Problem {
    Problem(ProblemDetails::records_unavailable(error.to_string()))
}
