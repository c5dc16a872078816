//! What another crate implements to answer the requests of a listener with the connections, limits and checks of this one.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::admin::Administrator;

/// Why a body broke off.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a handler's response. It may be a stream.
pub type HandledBody = UnsyncBoxBody<Bytes, BoxError>;

/// The response, when it is ready.
pub type HandledFuture = Pin<Box<dyn Future<Output = Response<HandledBody>>>>;

/// Makes the handler of a worker thread, on that thread.
pub type MakeHandler = Arc<dyn Fn() -> Rc<dyn HttpHandler> + Send + Sync>;

/// Answers requests on a worker thread.
pub trait HttpHandler {
    /// Answers a request whose `Host`, web page and token were checked. The future and the body are dropped when the client
    /// closes its connection, or the HTTP/2 stream.
    fn answer(&self, request: Request<Incoming>, client: Client) -> HandledFuture;
}

/// Makes the handler of the administration's worker thread, on that thread.
pub type MakeAdminHandler = Arc<dyn Fn() -> Rc<dyn AdminHandler> + Send + Sync>;

/// Answers the requests of the administration whose path is none of the server's: a dashboard.
pub trait AdminHandler {
    /// Answers a request whose `Host` and web page were checked. It checks the right of `administrator` itself. Of a response
    /// with the type `text/event-stream`, the body ends when the server stops.
    fn answer(&self, request: Request<Incoming>, administrator: Administrator) -> HandledFuture;

    /// Its routes, as `paths` of an OpenAPI document.
    fn openapi_paths(&self) -> serde_json::Map<String, serde_json::Value>;
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Whether it is a process of this machine, or sent the token.
    pub is_trusted: bool,
    /// Whether `Authorization` was the server's token, and nothing of the handler's.
    pub sent_token_as_authorization: bool,
}
