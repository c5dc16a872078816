//! Calls of other programs, which come with their own addresses and headers: what a gateway sends.
//!
//! `client` is the HTTP client, `connection` how it reaches vendors, `body` what it sends.

mod body;
mod client;
mod connection;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::attempts::{Call, CallOptions};
use crate::body::ApiBody;
use crate::error::CallError;
use crate::limiter::ApiLimiter;

pub use body::ForwardBody;
use client::ForwardExchange;
pub use client::ForwardingClient;

impl ApiLimiter {
    /// Sends a request as it is, within the limits of the api; again if the vendor refuses it, within its budget. A body
    /// that is a stream is sent once. Dropping the future, or the body of the answer, closes the vendor's connection.
    ///
    /// No header of the config is added, and nothing is checked of the address.
    pub async fn forward(
        &self,
        http: &ForwardingClient,
        request: Request<ForwardBody>,
        options: &CallOptions,
    ) -> Result<Response<ApiBody<Incoming>>, CallError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body_bytes = request.body().size_hint().exact().unwrap_or(0);
        // A copy shares the bytes of the body, and a stream has none.
        let body = request.body().whole().cloned();
        let call = Call { method: &method, path: &path, body: body.as_deref(), body_bytes, options };
        let mut exchange = ForwardExchange { http, request: Some(request) };
        self.call(call, &mut exchange).await
    }

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
