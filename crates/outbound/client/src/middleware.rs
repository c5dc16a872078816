//! A `reqwest_middleware` middleware, for people who have such a client.

use async_trait::async_trait;
use http::{Extensions, Response};
use reqwest::{Body, Request};
use reqwest_middleware::{Error, Middleware, Next};

use crate::attempts::{CallOptions, Exchange, SendError, VendorCall};
use crate::limiter::ApiLimiter;
use crate::request::{body_bytes, send_error, with_url};

/// Sends requests within an api's limits. A request's [`CallOptions`] are read from its extensions.
///
/// Put it after middleware that retries, or better: leave such middleware out, because this one does.
///
/// ```
/// # fn example(limiter: &tollway::Limiter) -> Result<(), Box<dyn std::error::Error>> {
/// use tollway_client::{ApiLimiter, ApiMiddleware};
///
/// let notion = ApiMiddleware::new(ApiLimiter::new(limiter, "notion")?);
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(notion).build();
/// # drop(client); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ApiMiddleware(ApiLimiter);

impl ApiMiddleware {
    /// Middleware with these limits.
    pub fn new(limiter: ApiLimiter) -> Self {
        Self(limiter)
    }
}

#[async_trait]
impl Middleware for ApiMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let options = extensions.get::<CallOptions>().cloned().unwrap_or_default();
        let copy = request.try_clone();
        let body = copy.as_ref().and_then(|copy| copy.body()?.as_bytes());
        let call = VendorCall {
            method: &method,
            path: &path,
            body,
            body_bytes: body_bytes(&request),
            options: &options,
        };
        let mut exchange = NextExchange { next, extensions, request: Some(request) };
        match self.0.call(call, &mut exchange).await {
            Ok(response) => Ok(response.map(Body::wrap).into()),
            Err(error) => Err(Error::Middleware(error.into())),
        }
    }
}

struct NextExchange<'n, 'e> {
    next: Next<'n>,
    extensions: &'e mut Extensions,
    request: Option<Request>,
}

impl Exchange for NextExchange<'_, '_> {
    type Body = Body;

    fn can_repeat(&self) -> bool {
        self.request.is_some()
    }

    async fn send(&mut self) -> Option<Result<Response<Body>, SendError>> {
        let request = self.request.take()?;
        self.request = request.try_clone();
        Some(match self.next.clone().run(request, self.extensions).await {
            Ok(response) => Ok(with_url(response)),
            Err(Error::Reqwest(error)) => Err(send_error(error)),
            Err(Error::Middleware(error)) => Err(SendError { error: error.into(), unsent: false }),
        })
    }
}
