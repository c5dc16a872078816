//! A request of an [`ApiClient`]: put together, then sent within the api's limits.

use std::fmt::Display;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Response};
use reqwest::{Body, Method, RequestBuilder, ResponseBuilderExt, Url};
use serde::Serialize;
use tollway::config::Api;
use tollway::core::Name;

use crate::attempts::{CallOptions, Exchange, SendError, VendorCall};
use crate::client::ApiClient;
use crate::error::{CallError, CallFailure};
use crate::gate::Priority;

/// A request being put together. It carries the headers of the api's config.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct ApiRequest {
    client: ApiClient,
    /// The first mistake, reported when it is sent.
    builder: Result<RequestBuilder, CallFailure>,
    options: CallOptions,
}

impl ApiRequest {
    pub(crate) fn new(client: ApiClient, method: Method, path: &str) -> Self {
        let api = client.limiter().api();
        let builder = join(&api, path).map(|url| client.http.request(method, url));
        let options = client.options.clone();
        Self { client, builder, options }
    }

    fn map(self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        Self { builder: self.builder.map(change), ..self }
    }

    /// Adds a header.
    pub fn header<N, V>(self, name: N, value: V) -> Self
    where
        HeaderName: TryFrom<N, Error: Into<http::Error>>,
        HeaderValue: TryFrom<V, Error: Into<http::Error>>,
    {
        self.map(|builder| builder.header(name, value))
    }

    /// Adds a token: `authorization: Bearer ...`.
    pub fn bearer_auth(self, token: impl Display) -> Self {
        self.map(|builder| builder.bearer_auth(token))
    }

    /// Adds to the query.
    pub fn query<Q: Serialize + ?Sized>(self, query: &Q) -> Self {
        self.map(|builder| builder.query(query))
    }

    /// The body as JSON.
    pub fn json<J: Serialize + ?Sized>(self, body: &J) -> Self {
        self.map(|builder| builder.json(body))
    }

    /// The body. A stream can be sent only once: if the vendor refuses, the call fails.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.map(|builder| builder.body(body))
    }

    /// All options of the call at once, in place of those of the client.
    pub fn options(self, options: CallOptions) -> Self {
        Self { options, ..self }
    }

    /// What the call costs in a unit, instead of the estimate of the config.
    pub fn cost(mut self, unit: &str, amount: u64) -> Self {
        match self.options.clone().cost(unit, amount) {
            Ok(options) => self.options = options,
            Err(error) => self.builder = self.builder.and(Err(CallFailure::Request(error.to_string()))),
        }
        self
    }

    /// Which calls of this process go first.
    pub fn priority(self, priority: Priority) -> Self {
        Self { options: self.options.priority(priority), ..self }
    }

    /// How long the call may take with all its waits and retries.
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { options: self.options.max_time(max_time), ..self }
    }

    /// How often it is sent again after a refusal.
    pub fn max_retries(self, max_retries: u32) -> Self {
        Self { options: self.options.max_retries(max_retries), ..self }
    }

    /// The statuses that mean "call later", instead of the config's.
    pub fn backoff_codes(self, codes: impl IntoIterator<Item = u16>) -> Self {
        Self { options: self.options.backoff_codes(codes), ..self }
    }

    /// Waits for its permits and sends it; again if the vendor refuses, within its budget. An answer that is not a refusal
    /// is returned whatever its status.
    pub async fn send(self) -> Result<reqwest::Response, CallError> {
        let limiter = self.client.limiter();
        let api = limiter.api().name().clone();
        let failed = |failure| failed(api.clone(), failure);
        let builder = self.builder.map_err(failed)?;
        let wrong = |error: reqwest::Error| failed(CallFailure::Request(error.without_url().to_string()));
        let mut request = builder.build().map_err(wrong)?;
        add_headers(&mut request, &limiter.api()).map_err(failed)?;
        check_cost(limiter, &self.options).map_err(failed)?;
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let body_bytes = body_bytes(&request);
        // A copy shares the bytes of the body.
        let copy = request.try_clone();
        let body = copy.as_ref().and_then(|copy| copy.body()?.as_bytes());
        let call = VendorCall { method: &method, path: &path, body, body_bytes, options: &self.options };
        let mut exchange = ReqwestExchange { http: &self.client.http, request: Some(request) };
        let response = limiter.call(call, &mut exchange).await?;
        Ok(response.map(Body::wrap).into())
    }
}

/// A request that was not sent at all.
fn failed(api: Name, failure: CallFailure) -> CallError {
    CallError { api, failure, attempts: Vec::new() }
}

/// The length of a request's body, as far as it is known.
pub(crate) fn body_bytes(request: &reqwest::Request) -> u64 {
    let bytes = request.body().and_then(Body::as_bytes).map(<[u8]>::len);
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

/// A cost in a unit that no limit counts is a mistake of the caller.
fn check_cost(limiter: &crate::ApiLimiter, options: &CallOptions) -> Result<(), CallFailure> {
    let api = limiter.api();
    for (unit, _) in &options.cost {
        let counts = |policy: &Name| {
            limiter.state.handle(policy).is_ok_and(|handle| handle.policy().units().contains(unit))
        };
        if !api.policies().any(counts) {
            return Err(CallFailure::Request(format!("no limit of api {} counts {unit}", api.name())));
        }
    }
    Ok(())
}

/// The URL of a call.
fn join(api: &Api, path: &str) -> Result<Url, CallFailure> {
    let wrong = |message: String| CallFailure::Request(message);
    let base = Url::parse(api.base_url())
        .map_err(|error| wrong(format!("the base_url of api {} is no URL: {error}", api.name())))?;
    let own_path = base.path().trim_end_matches('/');
    let url = match path.strip_prefix('/') {
        None if path.contains("://") => Url::parse(path),
        _ if path.strip_prefix(own_path).is_some_and(|rest| rest.starts_with('/')) => base.join(path),
        Some(rest) => base.join(&format!("{own_path}/{rest}")),
        None => base.join(&format!("{own_path}/{path}")),
    };
    // The query may carry a secret.
    let shown = path.split(['?', '#']).next().unwrap_or_default();
    let url = url.map_err(|error| wrong(format!("{shown:?} is no path: {error}")))?;
    match url.origin() == base.origin() {
        true => Ok(url),
        false => Err(wrong(format!(
            "{shown:?} is not at {}: the headers of api {} are not sent elsewhere",
            base.origin().ascii_serialization(),
            api.name()
        ))),
    }
}

/// Adds the headers of the config that the caller has not given.
fn add_headers(request: &mut reqwest::Request, api: &Api) -> Result<(), CallFailure> {
    for header in api.headers() {
        let name = HeaderName::try_from(header.name())
            .map_err(|_| CallFailure::Request(format!("{:?} is no name of a header", header.name())))?;
        if request.headers().contains_key(&name) {
            continue;
        }
        let value = header.value().map_err(CallFailure::Header)?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| CallFailure::Request(format!("header {} has no valid value", header.name())))?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
    Ok(())
}

pub(crate) struct ReqwestExchange<'c> {
    pub(crate) http: &'c reqwest::Client,
    pub(crate) request: Option<reqwest::Request>,
}

impl Exchange for ReqwestExchange<'_> {
    type Body = Body;

    fn can_repeat(&self) -> bool {
        self.request.is_some()
    }

    async fn send(&mut self) -> Option<Result<Response<Body>, SendError>> {
        let request = self.request.take()?;
        self.request = request.try_clone();
        Some(match self.http.execute(request).await {
            Ok(response) => Ok(with_url(response)),
            Err(error) => Err(send_error(error)),
        })
    }
}

/// The response in http's type. Its URL stays with it, which a plain conversion forgets.
pub(crate) fn with_url(response: reqwest::Response) -> Response<Body> {
    let url = response.url().clone();
    let mut response: Response<Body> = response.into();
    if let Ok(carrier) = http::response::Builder::new().url(url).body(()) {
        response.extensions_mut().extend(carrier.into_parts().0.extensions);
    }
    response
}

pub(crate) fn send_error(error: reqwest::Error) -> SendError {
    // The URL may carry a secret in its query.
    let error = error.without_url();
    SendError { unsent: error.is_connect() || error.is_builder(), error: error.into() }
}
