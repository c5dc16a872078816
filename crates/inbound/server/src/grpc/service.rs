//! One call: its method, its message and its status.
//!
//! Both services have only unary calls. Over HTTP/2 these are a request with a five-byte prefix and a response with trailers,
//! which needs no framework.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Version};
use prost::Message;
use tollway::core::Fault;
use tollway::{BindError, TakeError};
use tollway_inbound::escapes::escaped;

use super::answer::{ClientOfCall, should_rate_limit};
use super::message::{Health, HealthCheckRequest, HealthCheckResponse, RateLimitRequest, frame, unframe};
use crate::admin::may_enter;
use crate::bounded_take::client_network;
use crate::connection::Caller;
use crate::http::{Access, Body, Problem, Response, read};
use crate::listener::ListenerKind;
use crate::worker::Worker;

const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const RATE_LIMIT_SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";

/// Whether a request is a gRPC call: by its listener, or by its content type.
pub(crate) fn is_grpc_call(caller: &Caller, headers: &HeaderMap) -> bool {
    match caller.listener {
        ListenerKind::Grpc => true,
        ListenerKind::Decisions => is_grpc(headers),
        ListenerKind::Administration | ListenerKind::Resp | ListenerKind::Program | ListenerKind::Gateway => {
            false
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let subtype =
        headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"));
    subtype.is_some_and(|subtype| matches!(subtype, b"" | b"+proto") || subtype.first() == Some(&b';'))
}

/// Answers one call.
///
/// `grpc-timeout` is ignored: the client resets the stream when it has passed, which ends the call here and returns what it
/// took, and the store has its own timeout.
pub(crate) async fn answer(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> Response {
    if !is_grpc(request.headers()) || request.version() != Version::HTTP_2 || request.method() != Method::POST
    {
        return Problem::only_grpc().into_response();
    }
    match call(worker, caller, request).await {
        Ok(message) => {
            let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
            let mut response = Response::new(Body::with_trailers(message, trailers));
            response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_GRPC);
            response
        }
        Err(failure) => failure.into_response(),
    }
}

/// The methods that exist.
#[derive(Clone, Copy)]
enum CalledMethod {
    ShouldRateLimit,
    HealthCheck,
}

async fn call(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> Result<Bytes, Failure> {
    let method = match request.uri().path() {
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => CalledMethod::ShouldRateLimit,
        "/grpc.health.v1.Health/Check" => CalledMethod::HealthCheck,
        _ => return Err(Failure::new(StatusCode::Unimplemented, "no such method")),
    };
    let client = ClientOfCall { caller, network: client_network(worker, caller, request.headers()) };
    if let CalledMethod::ShouldRateLimit = method {
        let entered = may_enter(Access::Decide, &worker.state.rules(), worker, caller, request.headers());
        if let Err(refused) = entered {
            // Boxed: rare, and the future of every call would be larger.
            let problem = Box::pin(refused.answer_late(worker)).await;
            return Err(Failure::new(StatusCode::Unauthenticated, problem.detail()));
        }
    }
    let body = read(caller, request).await.map_err(|problem| unread(&problem))?;
    let message = unframe(body)?;
    match method {
        CalledMethod::ShouldRateLimit => {
            let request: RateLimitRequest = decoded(message)?;
            should_rate_limit(worker, client, &request).await.map(|response| frame(&response))
        }
        CalledMethod::HealthCheck => {
            let request: HealthCheckRequest = decoded(message)?;
            check_health(worker, &request).map(|response| frame(&response))
        }
    }
}

fn decoded<M: Message + Default>(message: Bytes) -> Result<M, Failure> {
    M::decode(message).map_err(|error| Failure::new(StatusCode::InvalidArgument, error.to_string()))
}

/// The failure of a call whose body could not be read.
fn unread(problem: &Problem) -> Failure {
    let code = match hyper::StatusCode::from_u16(problem.status()) {
        Ok(hyper::StatusCode::PAYLOAD_TOO_LARGE) => StatusCode::ResourceExhausted,
        Ok(hyper::StatusCode::REQUEST_TIMEOUT) => StatusCode::DeadlineExceeded,
        // Too many bodies at once: the caller may retry.
        Ok(hyper::StatusCode::SERVICE_UNAVAILABLE) => StatusCode::Unavailable,
        _ => StatusCode::InvalidArgument,
    };
    Failure::new(code, problem.detail())
}

/// A failing store does not make the service unhealthy: `when_store_fails` of every policy decides then.
fn check_health(worker: &Worker, request: &HealthCheckRequest) -> Result<HealthCheckResponse, Failure> {
    if !["", RATE_LIMIT_SERVICE, HEALTH_SERVICE].contains(&request.service.as_str()) {
        return Err(Failure::new(StatusCode::NotFound, format!("no service {:?}", request.service)));
    }
    let serving = if worker.state.is_stopping() { Health::NotServing } else { Health::Serving };
    Ok(HealthCheckResponse { status: serving.into() })
}

/// The gRPC status codes that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Why a call failed. Nothing was taken.
#[derive(Debug)]
pub(crate) struct Failure {
    code: StatusCode,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A trailers-only response.
    pub(super) fn into_response(self) -> Response {
        let mut response = Response::default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, CONTENT_TYPE_GRPC);
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        if let Ok(message) = HeaderValue::try_from(escaped(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        response
    }
}

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Self {
        let code = match &error {
            TakeError::Name(_) | TakeError::Cost(_) | TakeError::Refused(_) => StatusCode::InvalidArgument,
            // During a reload, a rule can outlive its policy.
            TakeError::UnknownPolicy { .. } => StatusCode::FailedPrecondition,
            TakeError::Store(error) if error.fault == Fault::Caller => StatusCode::InvalidArgument,
            // The proxy's `failure_mode_deny` decides what happens then.
            TakeError::Store(_) => StatusCode::Unavailable,
            TakeError::Denied(_) | TakeError::BlockingInAsync | TakeError::Runtime(_) => {
                tracing::error!(%error, "a call failed because of a server error");
                StatusCode::Internal
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Self::new(StatusCode::FailedPrecondition, error.to_string())
    }
}
