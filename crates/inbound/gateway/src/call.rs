//! One call, from the caller's request to the vendor's answer.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tollway::Timestamp;
use tollway::config::Api;
use tollway_client::{ApiBody, ApiLimiter, Attempts, CallOptions, ForwardBody, ForwardingClient};
use tollway_server::{Client, HandledBody};

use crate::estimate::{self, Wanted};
use crate::gateway::Worker;
use crate::learn::Learner;
use crate::metrics::{CountedCall, Outcome};
use crate::refusal::{REFUSED_BY, Refusal};
use crate::request_body::{Kept, RequestBody};
use crate::target::Target;
use crate::wishes::Wishes;
use crate::{headers, keepalive, timing};

/// A call that is ready to be sent.
pub(crate) struct ReadyCall {
    pub(crate) worker: Rc<Worker>,
    pub(crate) api: Arc<Api>,
    limits: ApiLimiter,
    request: Request<ForwardBody>,
    options: CallOptions,
    began: Timestamp,
    /// Whether its answer is a stream of events, as far as the request says.
    pub(crate) streams: bool,
    /// The memory of its body, while it may be sent again.
    _kept: Kept,
}

/// Answers a request; the error is an answer, too.
pub(crate) async fn call(
    worker: Rc<Worker>,
    request: Request<Incoming>,
    client: Client,
    began: Timestamp,
) -> Result<Response<HandledBody>, Refusal> {
    let ready = ReadyCall::of(worker, request, client, began).await?;
    match ready.api.gateway().keepalive().filter(|_| ready.streams) {
        Some(interval) => keepalive::send(ready, interval.into()).await,
        None => ready.send().await,
    }
}

impl ReadyCall {
    async fn of(
        worker: Rc<Worker>,
        request: Request<Incoming>,
        client: Client,
        began: Timestamp,
    ) -> Result<Self, Refusal> {
        headers::check(&request)?;
        let Target { api, uri } = Target::of(&request, worker.accounts.limiter())?;
        let (mut parts, body) = request.into_parts();
        let wishes = Wishes::of(&parts.headers, &api, client)?;
        let accepts_events = headers::accepts_events(&parts.headers);
        headers::for_vendor(&mut parts.headers, &api, client)?;
        let limits = worker
            .accounts
            .limits(&api, &parts.headers, &wishes)
            .map_err(|error| Refusal::bad_request(error.to_string()))?;
        let (body, kept) = RequestBody::read(body, &worker.kept)
            .await
            .map_err(|_| Refusal::bad_request("the body is incomplete"))?;
        let reads_body = limits.counts_tokens() || api.gateway().keepalive().is_some();
        let wanted = match body.whole() {
            Some(whole) if reads_body => Wanted::of(whole),
            _ => Wanted::default(),
        };
        let costs =
            estimate::costs(&api, parts.method.as_str(), uri.path(), body.length(), wanted, wishes.cost);
        let mut options =
            CallOptions::new().max_wait(wishes.max_wait).priority(wishes.priority).return_refusals();
        for (unit, amount) in costs {
            options = options
                .cost(unit.as_str(), amount)
                .map_err(|error| Refusal::bad_request(error.to_string()))?;
        }
        if let Some(policy) = api.gateway().policy() {
            options = options
                .share(policy, wishes.subject.as_deref().unwrap_or_default())
                .map_err(|error| Refusal::bad_request(error.to_string()))?;
        }
        // Without it, some vendors answer 411.
        let says_empty = [Method::POST, Method::PUT, Method::PATCH].contains(&parts.method);
        if says_empty && body.whole().is_some_and(Bytes::is_empty) {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = Request::new(ForwardBody::from(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers;
        let streams = wanted.streams || accepts_events;
        Ok(Self { worker, api, limits, request, options, began, streams, _kept: kept })
    }

    /// Waits for its permits, calls the vendor, and passes the answer on.
    pub(crate) async fn send(self) -> Result<Response<HandledBody>, Refusal> {
        let clock = Arc::clone(self.worker.accounts.limiter().clock());
        let http = self.worker.http().map_err(|error| Refusal::wrong_config(error.to_string()))?;
        let counted = self.worker.counts.begin(self.api.name().as_str());
        if let Some(learner) = &self.worker.learner {
            let watched = watch(http, self.request, learner, &self.api).await;
            counted.ended(if watched.is_ok() { Outcome::Answered } else { Outcome::Failed });
            return watched;
        }
        let dialect = self.api.dialect();
        match self.limits.forward(http, self.request, &self.options).await {
            Ok(response) => {
                let dialect = dialect.map(|dialect| dialect.name());
                Ok(answer(response, dialect, self.began, clock.now(), counted))
            }
            Err(error) => {
                tracing::debug!(%error, "a call got no answer of the vendor");
                let refusal = Refusal::of_call(&error);
                let is_late = refusal.status() == StatusCode::TOO_MANY_REQUESTS;
                counted.ended(if is_late { Outcome::Refused } else { Outcome::Failed });
                Err(refusal)
            }
        }
    }
}

/// The vendor's answer, as it is.
fn answer(
    response: Response<ApiBody<Incoming>>,
    dialect: Option<&str>,
    began: Timestamp,
    now: Timestamp,
    counted: CountedCall,
) -> Response<HandledBody> {
    let (mut parts, body) = response.into_parts();
    let attempts = Attempts::of(&parts.extensions);
    let was_refused = attempts.last().is_some_and(|attempt| attempt.refusal.is_some());
    headers::for_caller(&mut parts.headers);
    timing::add(&mut parts.headers, began, now, attempts);
    counted.waited(timing::waited(attempts));
    counted.ended(if was_refused { Outcome::VendorRefused } else { Outcome::Answered });
    if was_refused {
        let by = format!("vendor; dialect={}", dialect.unwrap_or("detected"));
        if let Ok(by) = by.try_into() {
            parts.headers.insert(REFUSED_BY, by);
        }
    }
    parts.extensions.clear();
    parts.version = http::Version::HTTP_11;
    Response::from_parts(parts, body.boxed_unsync())
}

/// Sends a call without limits, and learns from its answer.
async fn watch(
    http: &ForwardingClient,
    request: Request<ForwardBody>,
    learner: &Arc<Learner>,
    api: &Arc<Api>,
) -> Result<Response<HandledBody>, Refusal> {
    let watched = learner.begin(api);
    let response = http.send(request).await.map_err(|error| Refusal::no_answer(&error))?;
    let (mut parts, body) = response.into_parts();
    let body = watched.answered(parts.status, &parts.headers, body);
    headers::for_caller(&mut parts.headers);
    parts.extensions.clear();
    Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
}
