//! The response to a request that is not passed on: HTTP, or gRPC for gRPC clients.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use serde::Serialize;
use tollway::Denied;
use tollway_inbound::InboundTake;
use tollway_inbound::escapes::escaped;
use tollway_inbound::headers::{CallerKind, TooManyRequests};

use crate::body::LimitedBody;
use crate::headers;
use crate::options::LayerOptions;
use crate::problem::Problem;

/// gRPC status codes.
const INVALID_ARGUMENT: u16 = 3;
const PERMISSION_DENIED: u16 = 7;
const RESOURCE_EXHAUSTED: u16 = 8;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;
const UNAUTHENTICATED: u16 = 16;

/// When a gRPC client may retry, in milliseconds.
const RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The response to a denied request. A gRPC client reads the status in the headers and no body, so the program changes
/// only responses over plain HTTP.
pub(crate) fn denied<B>(
    request: &Parts,
    denial: &Denied,
    take: &InboundTake<'_>,
    caller: CallerKind,
    options: &LayerOptions,
) -> Response<LimitedBody<B>> {
    let statuses = take.limit_statuses(denial.decision(), false);
    let told = TooManyRequests::of_denial(denial.policy(), &statuses, denial, caller);
    let response = if is_grpc(request) {
        let mut response = grpc(RESOURCE_EXHAUSTED, &told.message);
        response.headers_mut().insert(RETRY_PUSHBACK, HeaderValue::from(told.retry_after_ms));
        headers::put(take, denial.decision(), &mut response);
        response
    } else {
        let mut response = json(StatusCode::TOO_MANY_REQUESTS, "application/json", &told);
        headers::put(take, denial.decision(), &mut response);
        options.change_denial(request, denial, &mut response);
        response
    };
    response.map(LimitedBody::refused)
}

/// The response to a request that failed before a decision.
pub(crate) fn failed<B>(request: &Parts, problem: &Problem) -> Response<LimitedBody<B>> {
    let status = problem.status();
    let mut response = if is_grpc(request) {
        let code = match status {
            StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
            StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
            StatusCode::FORBIDDEN => PERMISSION_DENIED,
            _ if status.is_server_error() => INTERNAL,
            _ => INVALID_ARGUMENT,
        };
        grpc(code, &problem.0.detail)
    } else {
        json(status, "application/problem+json", &problem.0)
    };
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
        }
        StatusCode::UNAUTHORIZED => {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response.map(LimitedBody::refused)
}

fn is_grpc(request: &Parts) -> bool {
    let kind = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = kind.strip_prefix(b"application/grpc").map(<[u8]>::first);
    // Not `application/grpc-web`, whose clients read trailers in the body.
    matches!(rest, Some(None | Some(b'+' | b';')))
}

/// A trailers-only response: the status is in the headers.
fn grpc(status: u16, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(status));
    if let Ok(message) = HeaderValue::try_from(escaped(message)) {
        headers.insert("grpc-message", message);
    }
    response
}

fn json(status: StatusCode, kind: &'static str, value: &impl Serialize) -> Response<Bytes> {
    // Serializing these types cannot fail.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_detected_by_its_content_type() {
        for (kind, grpc) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let (parts, ()) =
                http::Request::post("/").header(CONTENT_TYPE, kind).body(()).unwrap().into_parts();
            assert_eq!(is_grpc(&parts), grpc, "{kind}");
        }
    }
}
