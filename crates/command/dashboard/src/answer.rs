//! Responses: JSON, assets and problems, with the headers that keep other pages out.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tollway::{SetLimitError, TakeError};
use tollway_inbound::problem::ProblemDetails;
use tollway_server::HandledBody;

use crate::page::Asset;

/// Scripts, styles and data of this server alone, in no frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// A response of the dashboard.
pub(crate) type Answer = Response<HandledBody>;

/// Why there is no answer.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(flatten)]
    details: Box<ProblemDetails>,
    /// Of a change that was confirmed with another number: how many jobs it is about by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
}

impl Problem {
    pub(crate) fn new(
        status: u16,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self::of(ProblemDetails::new(status, kind, title, detail))
    }

    fn of(details: ProblemDetails) -> Self {
        Self { details: Box::new(details), jobs: None }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, "urn:tollway:bad-request", "invalid request", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "urn:tollway:not-found", "not found", detail)
    }

    /// It is not as the client saw it.
    #[cfg(feature = "pipeline")]
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, "urn:tollway:conflict", "it has changed meanwhile", detail)
    }

    #[cfg(feature = "pipeline")]
    pub(crate) fn with_jobs(self, jobs: u64) -> Self {
        Self { jobs: Some(jobs), ..self }
    }

    /// An internal error of the server.
    #[cfg(feature = "pipeline")]
    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self::of(ProblemDetails::failed(detail))
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        match &error {
            TakeError::Store(store) => Self::of(ProblemDetails::of_store(store)),
            TakeError::UnknownPolicy { .. } => Self::not_found(error.to_string()),
            _ => Self::bad_request(error.to_string()),
        }
    }
}

impl From<SetLimitError> for Problem {
    fn from(error: SetLimitError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl Problem {
    pub(crate) fn into_answer(self) -> Answer {
        let status = StatusCode::from_u16(self.details.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = of_type(status, "application/problem+json", &self);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

/// Data; it is not kept.
pub(crate) fn json(data: &impl Serialize) -> Answer {
    of_type(StatusCode::OK, "application/json", data)
}

fn of_type(status: StatusCode, media_type: &'static str, data: &impl Serialize) -> Answer {
    match serde_json::to_vec(data) {
        Ok(bytes) => with_headers(status, media_type, Bytes::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "cannot serialize a response");
            with_headers(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", Bytes::new())
        }
    }
}

/// A stream of events.
pub(crate) fn events(body: HandledBody) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    put_common(headers);
    answer
}

/// A page or an asset. A browser asks each time, and gets it once.
pub(crate) fn asset(asset: Asset, asked: &HeaderMap) -> Answer {
    let etag = etag(&asset.body);
    let known = asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut answer = match known {
        true => with_headers(StatusCode::NOT_MODIFIED, asset.media_type, Bytes::new()),
        false => with_headers(StatusCode::OK, asset.media_type, Bytes::from(asset.body)),
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(ETAG, etag);
    }
    answer
}

fn with_headers(status: StatusCode, media_type: &'static str, bytes: Bytes) -> Answer {
    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    put_common(headers);
    answer
}

fn put_common(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// Of the version and the content: FNV-1a, which tells versions of a file apart.
fn etag(content: &str) -> String {
    let hash = content.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("\"{}-{hash:016x}\"", env!("CARGO_PKG_VERSION"))
}
