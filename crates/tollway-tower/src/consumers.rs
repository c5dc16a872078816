//! The layer for consumers: each caller has its own limits, from records.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use smallvec::{SmallVec, smallvec};
use tollway::PolicyHandle;
use tollway_consumers::{ConsumerId, Gate, RecordsError, Who, WhoError};
use tollway_inbound::Admission;
use tollway_inbound::address::AddressRules;
use tollway_inbound::headers::HeaderChoice;
use tollway_inbound::problem::ProblemDetails;
use tower_layer::Layer;

use crate::RateLimit;
use crate::problem::Problem;
use crate::rules::{CountedRequest, RequestCharge, Rules};
use crate::subject::{ReadPeer, client_address};

/// Limits each consumer by its records before its requests reach a service.
///
/// ```
/// # use std::net::SocketAddr;
/// # use std::sync::Arc;
/// # use axum::extract::ConnectInfo;
/// use axum::{Router, routing::get};
/// use tollway::Limiter;
/// use tollway_consumers::{ANONYMOUS_POLICY, ConfigWithConsumers, Gate, Who, open_records};
/// use tollway_tower::ConsumersLayer;
/// use tollway_tower::address::AddressRules;
///
/// let config = ConfigWithConsumers::parse("[consumers]\nheader = 'x-consumer-id'\nrecords = 'sqlite::memory:'")?;
/// let limiter = Limiter::builder().config(config.limits())?.build();
/// let consumers = config.consumers().cloned().unwrap_or_default();
/// let records = open_records(&consumers.records.expose())?;
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
}

/// What the layer and its services share.
#[derive(Clone)]
pub(crate) struct ConsumerRules {
    gate: Arc<Gate>,
    who: Arc<Who>,
    /// `None`: requests without credentials are not limited.
    anonymous: Option<Anonymous>,
    headers: HeaderChoice,
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
        let who = Arc::new(who);
        Self { rules: ConsumerRules { gate, who, anonymous: None, headers: HeaderChoice::ALL } }
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
        self.rules.headers = headers;
        self
    }
}

impl<S> Layer<S> for ConsumersLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::new(Rules::Consumers(self.rules.clone())))
    }
}

impl ConsumerRules {
    pub(crate) async fn admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
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
        Ok(admission.map(|handle| self.counted(Cow::Owned(handle), consumer.to_string(), false)))
    }

    fn anonymous_admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
        let Some(Anonymous { handle, rules, peer }) = &self.anonymous else { return Ok(Admission::Free) };
        if !self.gate.is_enabled() {
            return Ok(Admission::Free);
        }
        // The subject is the bare address, as in the stored keys of earlier systems.
        let address = client_address(rules, peer(request), request)?;
        Ok(Admission::Counted(self.counted(Cow::Borrowed(handle), address, true)))
    }

    fn counted<'r>(
        &'r self,
        handle: Cow<'r, PolicyHandle>,
        subject: String,
        anonymous: bool,
    ) -> CountedRequest<'r> {
        let charges = smallvec![RequestCharge { handle, subject, amounts: SmallVec::new() }];
        CountedRequest { charges, headers: self.headers, anonymous }
    }
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
