//! Calls of other programs, which come with their own addresses and headers: what a gateway sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Response;
use http_body::Body as _;
use reqwest::Body;
use reqwest::dns::Resolve;

use crate::attempts::{CallOptions, VendorCall};
use crate::body::ApiBody;
use crate::error::{CallError, ClientError};
use crate::limiter::ApiLimiter;
use crate::request::ReqwestExchange;
use crate::tls::use_ring;

/// How long a connection may take, with TLS. A vendor that takes longer is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept: shorter than most vendors keep it, so that a call does not meet its end.
const POOL_IDLE: Duration = Duration::from_secs(30);

impl ApiLimiter {
    /// Sends a request as it is, within the limits of the api; again if the vendor refuses it, within its budget. A body
    /// that is a stream is sent once. Dropping the future, or the body of the answer, closes the vendor's connection.
    ///
    /// No header of the config is added, and nothing is checked of the address.
    pub async fn forward(
        &self,
        http: &reqwest::Client,
        request: reqwest::Request,
        options: &CallOptions,
    ) -> Result<Response<ApiBody<Body>>, CallError> {
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let body_bytes = request.body().and_then(|body| body.size_hint().exact()).unwrap_or(0);
        // A copy shares the bytes of the body, and a stream has none.
        let copy = request.body().and_then(Body::as_bytes).and_then(|_| request.try_clone());
        let body = copy.as_ref().and_then(|copy| copy.body()?.as_bytes());
        let call = VendorCall { method: &method, path: &path, body, body_bytes, options };
        let mut exchange = ReqwestExchange { http, request: Some(request) };
        self.call(call, &mut exchange).await
    }
}

impl ApiLimiter {
    /// Whether no call uses it, and nothing is left to tell the store.
    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    /// Calls of this process that were sent and have no answer yet.
    pub fn in_flight(&self) -> u64 {
        self.state.in_flight.load(Ordering::Relaxed)
    }

    /// Whether a limit of the api counts more than calls, so that estimates of tokens matter.
    pub fn counts_tokens(&self) -> bool {
        let api = self.api();
        let mut handles = api.policies().filter_map(|policy| self.state.handle(policy).ok());
        handles.any(|handle| handle.policy().units().iter().any(|unit| unit.as_str().ends_with("tokens")))
    }
}

/// An HTTP client for [`ApiLimiter::forward`]: it passes redirects and compressed bodies on as they are, and connects to the
/// addresses that `resolver` finds.
pub fn forwarding_client(resolver: Arc<dyn Resolve>) -> Result<reqwest::Client, ClientError> {
    use_ring();
    let builder = reqwest::Client::builder()
        .dns_resolver(resolver)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE);
    builder.build().map_err(|error| ClientError::Http(error.into()))
}
