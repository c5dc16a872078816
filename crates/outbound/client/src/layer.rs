//! A tower layer, for people who have an HTTP client that is a tower service.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::CallOptions;
use crate::attempts::{Exchange, SendError, VendorCall};
use crate::body::ApiBody;
use crate::error::{BoxError, CallError};
use crate::limiter::ApiLimiter;

/// Sends the requests of a tower service within an api's limits.
///
/// A request's [`CallOptions`] are read from its extensions. The inner service is polled for readiness before every attempt.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tollway::{Limiter, config::Api};
/// use tollway_client::{ApiLayer, ApiLimiter};
/// use tower::{Layer, Service, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let notion = Api::profile("notion").ok_or("no such profile")?;
/// let limiter = Limiter::builder().with_api(notion)?.build();
///
/// type Bytes = Full<bytes::Bytes>;
/// let client = tower::service_fn(async |_: Request<Bytes>| Ok::<_, std::io::Error>(Response::new(Bytes::from("hello"))));
/// let mut client = ApiLayer::new(ApiLimiter::new(&limiter, "notion")?).layer(client);
/// let response = client.ready().await?.call(Request::get("https://api.notion.com/v1/users").body(Bytes::default())?).await?;
/// assert!(response.status().is_success());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ApiLayer<R = CloneBody> {
    limiter: ApiLimiter,
    repeats: PhantomData<R>,
}

/// The service of an [`ApiLayer`].
#[derive(Debug)]
pub struct ApiService<S, R = CloneBody> {
    inner: S,
    limiter: ApiLimiter,
    repeats: PhantomData<R>,
}

/// A refused request is sent again with a clone of its body.
#[derive(Clone, Copy, Debug)]
pub enum CloneBody {}

/// A refused request is not sent again: its body can be read once.
#[derive(Clone, Copy, Debug)]
pub enum SendOnce {}

/// How a body is sent again.
pub trait RepeatBody<B>: sealed::Sealed {
    /// Another one with the same content.
    fn repeat(body: &B) -> Option<B>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::CloneBody {}
    impl Sealed for super::SendOnce {}
}

impl<B: Clone> RepeatBody<B> for CloneBody {
    fn repeat(body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B> RepeatBody<B> for SendOnce {
    fn repeat(_: &B) -> Option<B> {
        None
    }
}

impl ApiLayer {
    /// A layer for requests whose bodies can be cloned, such as `Full<Bytes>`.
    pub fn new(limiter: ApiLimiter) -> Self {
        Self { limiter, repeats: PhantomData }
    }
}

impl ApiLayer<SendOnce> {
    /// A layer for requests with any body. Refused requests are not sent again.
    pub fn without_retries(limiter: ApiLimiter) -> Self {
        Self { limiter, repeats: PhantomData }
    }
}

impl<R> Clone for ApiLayer<R> {
    fn clone(&self) -> Self {
        Self { limiter: self.limiter.clone(), repeats: PhantomData }
    }
}

impl<S: Clone, R> Clone for ApiService<S, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), limiter: self.limiter.clone(), repeats: PhantomData }
    }
}

impl<S, R> Layer<S> for ApiLayer<R> {
    type Service = ApiService<S, R>;

    fn layer(&self, inner: S) -> ApiService<S, R> {
        ApiService { inner, limiter: self.limiter.clone(), repeats: PhantomData }
    }
}

impl<S, R, Q, B> Service<Request<Q>> for ApiService<S, R>
where
    S: Service<Request<Q>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    R: RepeatBody<Q>,
    Q: Body + Send + 'static,
    B: Body<Data: Buf + Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = Response<ApiBody<B>>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, CallError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        // Waiting for a permit takes longer than readiness lasts: each attempt waits for it by itself.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (limiter, inner) = (self.limiter.clone(), self.inner.clone());
        let (parts, body) = request.into_parts();
        Box::pin(async move {
            let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
            let options = parts.extensions.get::<CallOptions>().cloned().unwrap_or_default();
            let body_bytes = body.size_hint().exact().unwrap_or(0);
            let call = VendorCall { method: &method, path: &path, body: None, body_bytes, options: &options };
            let mut exchange =
                ServiceExchange { inner, parts, body: Some(body), repeats: PhantomData::<fn() -> R> };
            limiter.call(call, &mut exchange).await
        })
    }
}

struct ServiceExchange<S, Q, R> {
    inner: S,
    parts: http::request::Parts,
    body: Option<Q>,
    repeats: PhantomData<fn() -> R>,
}

impl<S, R, Q, B> Exchange for ServiceExchange<S, Q, R>
where
    S: Service<Request<Q>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send,
    R: RepeatBody<Q>,
    Q: Send,
    B: Body<Data: Buf + Send, Error: Into<BoxError>> + Send + Unpin,
{
    type Body = B;

    fn can_repeat(&self) -> bool {
        self.body.is_some()
    }

    fn send(&mut self) -> impl Future<Output = Option<Result<Response<B>, SendError>>> + Send {
        let body = self.body.take();
        self.body = body.as_ref().and_then(R::repeat);
        let parts = self.parts.clone();
        let inner = &mut self.inner;
        async move {
            let request = Request::from_parts(parts, body?);
            let failed = |error: BoxError, unsent| SendError { error, unsent };
            let ready = std::future::poll_fn(|context| inner.poll_ready(context).map_err(Into::into)).await;
            if let Err(error) = ready {
                return Some(Err(failed(error, true)));
            }
            Some(inner.call(request).await.map_err(|error| failed(error.into(), false)))
        }
    }
}
