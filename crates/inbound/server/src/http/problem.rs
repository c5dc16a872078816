//! Errors as `application/problem+json` (RFC 9457): what is wrong, whose fault it is, and whether to retry.

use std::borrow::Cow;

use hyper::StatusCode;
use hyper::header::{ALLOW, CONNECTION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::JsonSchema;
use serde::Serialize;
use tollway::core::{Fault, Refusal};
use tollway::{SetLimitError, StoreError, TakeError};
use tollway_inbound::problem::ProblemDetails;

use super::body::{Response, of_type};
use super::query::shortened;
use crate::bounds::{BODY_BYTES_MAX, OBSERVED_BODY_BYTES_MAX, TAKES_PER_BATCH_MAX};

/// An error. Boxed, because most responses are none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Problem {
    details: Box<ProblemDetails>,
    #[serde(skip)]
    header: Option<Box<(HeaderName, Cow<'static, str>)>>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self::of(ProblemDetails::new(status.as_u16(), kind, title, detail))
    }

    pub(crate) fn of(details: ProblemDetails) -> Self {
        Self { details: Box::new(details), header: None }
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        self.header = Some(Box::new((name, value.into())));
        self
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:tollway:bad-request", "invalid request", detail)
    }

    pub(crate) fn empty_subject() -> Self {
        Self::bad_request("the subject is empty; leave it out to count for all callers together")
    }

    /// A body that is not the expected JSON.
    pub(crate) fn bad_json(error: &serde_json::Error) -> Self {
        let kind = "urn:tollway:bad-body";
        // The error quotes the body: control characters in it must not reach a terminal.
        let detail = error.to_string().replace(char::is_control, "\u{fffd}");
        Self::new(StatusCode::BAD_REQUEST, kind, "invalid body", detail)
    }

    pub(super) fn body_too_large() -> Self {
        let detail = format!("a body has at most {BODY_BYTES_MAX} bytes; send fewer takes at a time");
        let kind = "urn:tollway:body-too-large";
        // The rest of the body is not read, so the connection cannot be reused.
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, kind, "the body is too large", detail)
            .with_header(CONNECTION, "close")
    }

    pub(super) fn too_many_bodies() -> Self {
        let detail =
            "too many requests with incomplete bodies are in flight; complete some of them, and retry";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "urn:tollway:too-many-bodies",
            "too many incomplete bodies",
            detail,
        )
        .with_header(RETRY_AFTER, "1")
    }

    pub(super) fn too_many_connections() -> Self {
        let detail = "all connections of the administration have requests in flight; retry, or ask /health and /ready only";
        let kind = "urn:tollway:too-many-connections";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, "too many connections", detail)
            .with_header(CONNECTION, "close")
    }

    /// The program whose metrics these are cannot read them.
    pub(crate) fn no_figures(error: &str) -> Self {
        let kind = "urn:tollway:no-figures";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, "the figures cannot be read", error)
            .with_header(RETRY_AFTER, "1")
    }

    pub(super) fn body_too_slow() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "urn:tollway:body-too-slow", "the body is too slow", detail)
            .with_header(CONNECTION, "close")
    }

    pub(super) fn too_many_takes(takes: usize) -> Self {
        let detail = format!("{takes} takes are more than the {TAKES_PER_BATCH_MAX} allowed in one request");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "urn:tollway:too-many-takes", "too many takes", detail)
    }

    pub(super) fn unknown_permit() -> Self {
        let detail = "this permit was not issued by a server that shares this store, or it was modified";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "urn:tollway:unknown-permit", "unknown permit", detail)
    }

    pub(crate) fn not_of_an_api() -> Self {
        let detail = "this permit is of no policy of an api: name the vendor in [apis.NAME] of the config, and take under \
                      its policy";
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "urn:tollway:not-of-an-api",
            "the permit is not of an api",
            detail,
        )
    }

    pub(crate) fn observed_before() -> Self {
        let detail = "the answer to the call of this permit was reported before";
        Self::new(StatusCode::CONFLICT, "urn:tollway:observed-before", "reported before", detail)
    }

    pub(crate) fn observed_too_late() -> Self {
        let detail = "this permit is too old: an answer is reported within the api's `max_time`";
        Self::new(StatusCode::CONFLICT, "urn:tollway:observed-too-late", "reported too late", detail)
    }

    pub(super) fn observed_body_too_large() -> Self {
        let detail =
            format!("the vendor's `body` has at most {OBSERVED_BODY_BYTES_MAX} bytes; send its beginning");
        let kind = "urn:tollway:observed-body-too-large";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, "the vendor's body is too large", detail)
    }

    /// Other machines reach the listener, and it has no credential.
    pub(crate) fn needs_token_here() -> Self {
        let detail =
            "on a listener that other machines reach, this needs a token; set `decisions` in [server.tokens]";
        Self::new(StatusCode::FORBIDDEN, "urn:tollway:needs-token", "a token is needed here", detail)
    }

    pub(super) fn never_waits(policy: &str) -> Self {
        let detail = format!(
            "policy {policy:?} has a concurrency limit, and a proxy never reports the end of a call; use /v1/take and \
             /v1/done instead"
        );
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "urn:tollway:holds-slots",
            "the policy has a concurrency limit",
            detail,
        )
    }

    /// The store is not Redis.
    pub(crate) fn no_redis(technology: &str) -> Self {
        let detail = format!(
            "the store is {technology}, not Redis; see /ready for its state, or set a Redis URL in the config, as in \
             `[store]` and `url = \"redis://127.0.0.1:6379\"`"
        );
        Self::new(StatusCode::NOT_FOUND, "urn:tollway:no-redis", "the store is not Redis", detail)
    }

    pub(super) fn unknown_client() -> Self {
        let detail = "the client's address is unknown: the request came through a unix socket; trust the proxy behind \
                      it ([server.address]), or name headers that identify the client ([server.authorize])";
        Self::of(ProblemDetails::unknown_client(detail))
    }

    pub(super) fn no_such_path(path: &str, known: &[&str]) -> Self {
        let dashboard = match path {
            "/" => {
                "; the dashboard is at the address for administration: `admin` in [server], or `tollway dashboard`"
            }
            _ => "",
        };
        let (path, known) = (shortened(path), known.join(", "));
        let detail = format!("there is no path {path:?}; there are {known}{dashboard}");
        Self::new(StatusCode::NOT_FOUND, "urn:tollway:no-such-path", "no such path", detail)
    }

    pub(super) fn wrong_method(allowed: &[&str]) -> Self {
        let allowed = allowed.join(", ");
        let detail = format!("this path allows {allowed}");
        let kind = "urn:tollway:wrong-method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, kind, "method not allowed", detail)
            .with_header(ALLOW, allowed)
    }

    pub(crate) fn only_grpc() -> Self {
        let detail = "use gRPC: POST over HTTP/2 with the content type application/grpc";
        let kind = "urn:tollway:only-grpc";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind, "only gRPC is served here", detail)
    }

    pub(crate) fn no_token() -> Self {
        let detail =
            "this needs a valid token, as in `Authorization: Bearer TOKEN` or `X-Tollway-Token: TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, "urn:tollway:no-token", "no valid token", detail)
            .with_header(WWW_AUTHENTICATE, "Bearer")
    }

    /// The request has a name that a web page could have pointed here.
    pub(super) fn unknown_host(host: &str, known: &[String], section: &str) -> Self {
        let hosts: Vec<&str> = known.iter().map(String::as_str).chain([host]).collect();
        let detail = format!(
            "this server does not know the name {host:?}, and a web page could have pointed it here; if it is yours, write \
             `hosts = {hosts:?}` in {section}"
        );
        Self::new(StatusCode::FORBIDDEN, "urn:tollway:unknown-host", "unknown host", detail)
    }

    /// A browser sends the request for a page of another site.
    pub(super) fn foreign_page(section: &str) -> Self {
        let detail = format!(
            "a browser sent this for a web page of another origin; if the page is yours, name its origin in \
             `allowed_origins` of {section}, as in `allowed_origins = [\"https://app.example.com\"]`"
        );
        Self::new(StatusCode::FORBIDDEN, "urn:tollway:foreign-page", "a foreign web page", detail)
    }

    pub(crate) fn another_right() -> Self {
        let detail = "this token is for something else ([server.tokens] says for what)";
        Self::new(StatusCode::FORBIDDEN, "urn:tollway:another-right", "the token has another right", detail)
    }

    pub(crate) fn may_not_write() -> Self {
        let detail = "this needs a write token ([server.tokens], `write`)";
        Self::new(StatusCode::FORBIDDEN, "urn:tollway:may-not-write", "only reading is allowed", detail)
    }

    fn of_store(error: &StoreError) -> Self {
        let problem = Self::of(ProblemDetails::of_store(error));
        if error.fault == Fault::Caller { problem } else { problem.with_header(RETRY_AFTER, "1") }
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::IdReused(_) | Refusal::CallOver(_) => {
                Self::new(StatusCode::CONFLICT, "urn:tollway:id-conflict", "the id cannot be used", detail)
            }
            // Each id is kept for ten minutes; of so many, some expire within seconds.
            Refusal::TooManyIds => {
                let kind = "urn:tollway:too-many-ids";
                let problem =
                    Self::new(StatusCode::TOO_MANY_REQUESTS, kind, "too many ids of one subject", detail);
                problem.with_header(RETRY_AFTER, "10")
            }
            Refusal::AboveLimit { .. }
            | Refusal::OverrunTooLarge { .. }
            | Refusal::SameChargeTwice { .. }
            | Refusal::ControllerTooLong(_)
            | Refusal::ChargeCount(_) => Self::of(ProblemDetails::refused(detail)),
        }
    }

    #[cfg(test)]
    pub(super) fn allow(&self) -> Option<&str> {
        self.header.as_ref().filter(|header| header.0 == ALLOW).map(|header| &*header.1)
    }

    pub(crate) fn status(&self) -> u16 {
        self.details.status
    }

    pub(crate) fn detail(&self) -> &str {
        &self.details.detail
    }

    /// The response of a request that failed.
    pub(crate) fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.details.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = of_type(status, "application/problem+json", &self);
        if let Some((name, value)) = self.header.map(|header| *header)
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        let detail = error.to_string();
        match &error {
            TakeError::UnknownPolicy { .. } => {
                Self::new(StatusCode::NOT_FOUND, "urn:tollway:unknown-policy", "no such policy", detail)
            }
            TakeError::Name(_) => Self::of(ProblemDetails::bad_name(detail)),
            TakeError::Cost(_) => Self::of(ProblemDetails::bad_cost(detail)),
            TakeError::Refused(refusal) => Self::of_refusal(refusal),
            TakeError::Store(error) => Self::of_store(error),
            // A denial is a decision, and never gets here.
            TakeError::Denied(_) | TakeError::BlockingInAsync | TakeError::Runtime(_) => {
                tracing::error!(error = detail, "a request failed because of a server error");
                Self::of(ProblemDetails::failed(detail))
            }
        }
    }
}

impl From<SetLimitError> for Problem {
    fn from(error: SetLimitError) -> Self {
        let detail = error.to_string();
        match error {
            SetLimitError::Policy(error) => error.into(),
            SetLimitError::Store(error) => Self::of_store(&error),
            SetLimitError::UnknownLimit { .. } => {
                Self::new(StatusCode::NOT_FOUND, "urn:tollway:unknown-limit", "no such limit", detail)
            }
            SetLimitError::NotKept => {
                Self::new(StatusCode::CONFLICT, "urn:tollway:limits-not-kept", "limits cannot be set", detail)
            }
            SetLimitError::Text(_) | SetLimitError::AnotherLimit { .. } | SetLimitError::Amount(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "urn:tollway:bad-limit", "invalid limit", detail)
            }
        }
    }
}
