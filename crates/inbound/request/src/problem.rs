//! Errors as `application/problem+json` (RFC 9457), shared by all protocols.

use serde::Serialize;
use tollway_core::{Fault, Retry, StoreError};

/// Something that went wrong. Nothing was taken, unless `retry` says that this is not clear.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProblemDetails {
    /// What kind of problem it is, as a URN that stays the same.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The kind in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request, and what to do.
    pub detail: String,
    /// Of a problem with the store: whether the same request may be sent again. `safe`: it was not applied; `unclear`: it
    /// may have been; `useless`: it would fail again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<&'static str>,
}

impl ProblemDetails {
    /// A problem that has no constructor of its own.
    pub fn new(status: u16, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, title, status, detail: detail.into(), retry: None }
    }

    /// A text that cannot be a subject or an id.
    pub fn bad_name(detail: impl Into<String>) -> Self {
        Self::new(400, "urn:tollway:bad-name", "not a subject or id", detail)
    }

    /// Units or amounts that cannot be taken under the policy.
    pub fn bad_cost(detail: impl Into<String>) -> Self {
        Self::new(422, "urn:tollway:bad-cost", "not a cost", detail)
    }

    /// The cost can never be granted.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(422, "urn:tollway:refused", "this can never be granted", detail)
    }

    /// An error of the store.
    pub fn of_store(error: &StoreError) -> Self {
        let detail = error.to_string();
        if error.fault == Fault::Caller {
            return Self::refused(detail);
        }
        let retry = Some(match error.retry {
            Retry::Safe => "safe",
            Retry::Unclear => "unclear",
            Retry::Useless => "useless",
        });
        let title = "the store does not decide";
        Self { retry, ..Self::new(503, "urn:tollway:store-unavailable", title, detail) }
    }

    /// An internal error of the server.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(500, "urn:tollway:failed", "the server failed", detail)
    }

    /// The request names no subject to count it for.
    pub fn unknown_client(detail: impl Into<String>) -> Self {
        Self::new(400, "urn:tollway:unknown-client", "the client is not known", detail)
    }

    /// The credential is not the id of a consumer.
    pub fn unknown_consumer(detail: impl Into<String>) -> Self {
        Self::new(400, "urn:tollway:unknown-consumer", "the consumer is not known", detail)
    }

    /// The same for an unknown token.
    pub fn unknown_token(detail: impl Into<String>) -> Self {
        Self { status: 401, ..Self::unknown_consumer(detail) }
    }

    /// A blocked consumer.
    pub fn blocked() -> Self {
        let detail = "this consumer is blocked, whatever its limits; contact the operator of the API";
        Self::new(403, "urn:tollway:blocked", "this consumer is blocked", detail)
    }

    /// The limits of a consumer cannot be read.
    pub fn records_unavailable(detail: impl Into<String>) -> Self {
        let title = "the records of consumers cannot be reached";
        Self::new(503, "urn:tollway:records-unavailable", title, detail)
    }
}
