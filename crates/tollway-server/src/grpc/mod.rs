//! gRPC: Envoy's rate limit service, and the health service that proxies and orchestrators ask.
//!
//! Both have nothing but calls with one message in and one out, which over HTTP/2 are a request with five bytes before its
//! body and an answer with trailers: no framework is needed for that. `frame` knows the five bytes, `message` the messages,
//! `status` how a call ends that is not answered; `lookup` finds the rule of a descriptor, `subject` whom it counts for,
//! `chosen` limits that a proxy brings; `asked` is the question, with what it asks for `callers`, as a list of what to
//! `count`; `decision` decides it, `told` is the answer, with a `refusal` for callers who are told why.

mod asked;
mod callers;
mod chosen;
mod count;
mod decision;
mod frame;
pub(crate) mod fuzz;
mod health;
mod lookup;
mod message;
mod refusal;
mod status;
mod subject;
mod told;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Version};
use prost::Message;

pub(crate) use lookup::Descriptors;

use crate::connection::Caller;
use crate::http::{Body, Problem, Response, read};
use crate::listener::Door;
use crate::worker::Worker;
use chosen::ChosenLimits;
use message::{HealthCheckRequest, RateLimitRequest};
use status::{Code, Failure, GRPC_STATUS};

const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const RATE_LIMIT_SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";

/// What a worker keeps for it.
#[derive(Default)]
pub(crate) struct Grpc {
    chosen: ChosenLimits,
}

/// Whether a request is for here: it came through the door for nothing else, or says what it is.
pub(crate) fn is_asked(caller: &Caller, headers: &HeaderMap) -> bool {
    match caller.door {
        Door::Grpc => true,
        Door::Decisions => is_grpc(headers),
        Door::Administration | Door::Resp => false,
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let subtype =
        headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"));
    subtype.is_some_and(|subtype| matches!(subtype, b"" | b"+proto") || subtype.first() == Some(&b';'))
}

/// Answers one call.
///
/// `grpc-timeout` is not looked at: whoever sends it resets the stream when it has passed, which ends the call here and gives
/// back what it took, and a store has a deadline of its own.
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

/// The methods there are.
#[derive(Clone, Copy)]
enum Called {
    ShouldRateLimit,
    HealthCheck,
}

async fn call(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> Result<Bytes, Failure> {
    let called = match request.uri().path() {
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Called::ShouldRateLimit,
        "/grpc.health.v1.Health/Check" => Called::HealthCheck,
        _ => return Err(Failure::new(Code::Unimplemented, "there is no such method")),
    };
    let body = read(caller, request).await.map_err(|problem| unread(&problem))?;
    let message = frame::open(body)?;
    match called {
        Called::ShouldRateLimit => {
            let request: RateLimitRequest = decoded(message)?;
            decision::answer(worker, &request).await.map(|response| frame::close(&response))
        }
        Called::HealthCheck => {
            let request: HealthCheckRequest = decoded(message)?;
            health::check(worker, &request).map(|response| frame::close(&response))
        }
    }
}

fn decoded<M: Message + Default>(message: Bytes) -> Result<M, Failure> {
    M::decode(message).map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))
}

/// A body that did not come whole.
fn unread(problem: &Problem) -> Failure {
    let code = match StatusCode::from_u16(problem.status()) {
        Ok(StatusCode::PAYLOAD_TOO_LARGE) => Code::ResourceExhausted,
        Ok(StatusCode::REQUEST_TIMEOUT) => Code::DeadlineExceeded,
        _ => Code::InvalidArgument,
    };
    Failure::new(code, problem.detail())
}
