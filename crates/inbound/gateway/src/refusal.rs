//! What the gateway answers itself: a call that was not sent, or got no answer. An answer of a vendor passes as it is.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use tollway::{Denied, TakeError};
use tollway_client::{CallError, CallFailure};
use tollway_inbound::problem::ProblemDetails;
use tollway_server::HandledBody;

use crate::bounds::{RETRY_AFTER_UNKNOWN, SDK_SLEEP_MAX};

pub(crate) const REFUSED_BY: HeaderName = HeaderName::from_static("tollway-refused-by");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// What the SDKs of OpenAI and Anthropic obey before anything else.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// An answer of the gateway's own. Boxed, because most calls have none.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Content>);

#[derive(Debug)]
struct Content {
    problem: Problem,
    wait: Option<Duration>,
    /// The value of `Tollway-Refused-By`.
    by: String,
}

#[derive(Debug, Serialize)]
struct Problem {
    #[serde(flatten)]
    details: ProblemDetails,
    /// The limit without room for the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// How long until it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Refusal {
    pub(crate) fn problem(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self::of(ProblemDetails::new(status.as_u16(), kind, title, detail))
    }

    fn of(details: ProblemDetails) -> Self {
        let problem = Problem { details, limit: None, retry_after_ms: None };
        Self(Box::new(Content { problem, wait: None, by: "tollway".to_owned() }))
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::problem(StatusCode::BAD_REQUEST, "urn:tollway:bad-request", "invalid request", detail)
    }

    pub(crate) fn not_supported(detail: &'static str) -> Self {
        Self::problem(StatusCode::NOT_IMPLEMENTED, "urn:tollway:not-supported", "not supported", detail)
    }

    /// A header of the config has no value.
    pub(crate) fn wrong_config(detail: String) -> Self {
        let kind = "urn:tollway:wrong-config";
        Self::problem(StatusCode::INTERNAL_SERVER_ERROR, kind, "the gateway's config is wrong", detail)
    }

    /// The vendor of a call without limits could not be reached.
    pub(crate) fn no_answer(error: &dyn std::fmt::Display) -> Self {
        Self::unreachable(StatusCode::BAD_GATEWAY, error)
    }

    fn unreachable(status: StatusCode, error: &dyn std::fmt::Display) -> Self {
        let kind = "urn:tollway:no-answer";
        Self::problem(status, kind, "the vendor gave no answer", error.to_string())
    }

    /// A call that would have to wait too long. It was not sent.
    fn late(detail: String, limit: Option<String>, by: String, wait: Option<Duration>) -> Self {
        let kind = "urn:tollway:too-long-a-wait";
        let details =
            ProblemDetails::new(429, kind, "there is no room for this call in the time it may wait", detail);
        let wait = wait.unwrap_or(RETRY_AFTER_UNKNOWN);
        let retry_after_ms = Some(millis(wait));
        let problem = Problem { details, limit, retry_after_ms };
        Self(Box::new(Content { problem, wait: Some(wait), by }))
    }

    fn of_denied(denied: &Denied) -> Self {
        let limit = denied.limit().filter(|_| !denied.held()).map(|limit| limit.name().to_string());
        let what = match &limit {
            Some(limit) => format!("limit={limit}"),
            None if denied.stopped() => "stopped".to_owned(),
            None => "hold".to_owned(),
        };
        let by = format!("tollway; policy={}; {what}", denied.policy().name());
        Self::late(denied.to_string(), limit, by, Some(denied.retry_after()))
    }

    /// A call that got no answer to pass on.
    pub(crate) fn of_call(error: &CallError) -> Self {
        match &error.failure {
            CallFailure::NoPermit(failure) => match &**failure {
                TakeError::Denied(denied) => Self::of_denied(denied),
                TakeError::Store(failure) => {
                    let mut refusal = Self::of(ProblemDetails::of_store(failure));
                    refusal.0.wait = Some(RETRY_AFTER_UNKNOWN);
                    refusal
                }
                TakeError::Refused(_) | TakeError::Cost(_) => {
                    Self::of(ProblemDetails::refused(failure.to_string()))
                }
                TakeError::UnknownPolicy { .. }
                | TakeError::Name(_)
                | TakeError::BlockingInAsync
                | TakeError::Runtime(_) => Self::of(ProblemDetails::failed(failure.to_string())),
            },
            CallFailure::Held(_) => {
                Self::late(error.to_string(), None, "tollway; hold".to_owned(), error.retry_after())
            }
            CallFailure::NoTurn { .. } | CallFailure::LateTurn { .. } | CallFailure::TooManyWaiting => {
                Self::late(error.to_string(), None, "tollway; queue".to_owned(), error.retry_after())
            }
            CallFailure::Timeout(_) => Self::unreachable(StatusCode::GATEWAY_TIMEOUT, error),
            CallFailure::Send(_)
            | CallFailure::Refused
            | CallFailure::CannotRepeat
            | CallFailure::NoAccess => Self::unreachable(StatusCode::BAD_GATEWAY, error),
            CallFailure::Header(failure) => Self::wrong_config(failure.to_string()),
            CallFailure::Request(failure) => Self::bad_request(failure.clone()),
        }
    }

    /// As a value of an event stream that has begun.
    pub(crate) fn into_event(self) -> Bytes {
        let json = serde_json::to_string(&self.0.problem).unwrap_or_default();
        Bytes::from(format!("event: error\ndata: {json}\n\n"))
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.problem.details.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn into_response(self) -> Response<HandledBody> {
        let json = serde_json::to_vec(&self.0.problem).unwrap_or_default();
        let body = Full::new(Bytes::from(json)).map_err(|never| match never {}).boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Ok(by) = HeaderValue::try_from(self.0.by) {
            headers.insert(REFUSED_BY, by);
        }
        if let Some(wait) = self.0.wait {
            tell_wait(headers, wait);
        }
        response
    }
}

/// Seconds for HTTP clients, milliseconds for SDKs. Those would try again too early if the wait is longer than they sleep.
fn tell_wait(headers: &mut HeaderMap, wait: Duration) {
    let millis = millis(wait);
    headers.insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1_000)));
    headers.insert(RETRY_AFTER_MS, HeaderValue::from(millis));
    if wait > SDK_SLEEP_MAX {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
