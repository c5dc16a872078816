//! What goes wrong before anything is decided, or instead of it.

use http::StatusCode;
use tollway::TakeError;
use tollway::core::Fault;

/// Why a request is not passed on although no limit was reached.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: String) -> Self {
        Self { status, kind, title, detail }
    }

    pub(crate) fn not_a_subject(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-name", "not a subject", detail)
    }

    pub(crate) fn unknown_subject(looked_for: &str) -> Self {
        let detail = format!("nobody can tell whom this request counts for: it needs {looked_for}");
        Self::new(StatusCode::BAD_REQUEST, "unknown-client", "the client is not known", detail)
    }

    pub(crate) fn unknown_peer() -> Self {
        tracing::error!("the address of a client is not known; does the server put it into the request?");
        let detail = "the server does not know the client's address".to_owned();
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown-client", "the client is not known", detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// As `application/problem+json` (RFC 9457).
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let Self { status, kind, title, detail } = self;
        serde_json::json!({
            "type": format!("urn:tollway:{kind}"),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
        })
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        let detail = error.to_string();
        match &error {
            TakeError::Name(_) => Self::not_a_subject(detail),
            TakeError::Store(error) if error.fault != Fault::Caller => {
                let title = "the store does not decide";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", title, detail)
            }
            TakeError::Cost(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-cost", "not a cost", detail)
            }
            TakeError::Refused(_) | TakeError::Store(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", "this can never be granted", detail)
            }
            TakeError::UnknownPolicy { .. }
            | TakeError::Denied(_)
            | TakeError::BlockingInAsync
            | TakeError::Runtime(_) => {
                tracing::error!(error = detail, "a request failed for a reason of the server's own");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server failed", detail)
            }
        }
    }
}
