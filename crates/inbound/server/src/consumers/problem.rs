//! Errors of consumers and their records.

use hyper::StatusCode;
use hyper::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use tollway_consumers::{RecordsError, RecordsFault, WhoError};
use tollway_inbound::problem::ProblemDetails;

use crate::http::Problem;

impl Problem {
    /// The request's credentials do not identify a consumer.
    pub(super) fn unknown_consumer(error: &WhoError) -> Self {
        match error {
            WhoError::UnknownToken(_) => Self::of(ProblemDetails::unknown_token(error.to_string()))
                .with_header(WWW_AUTHENTICATE, "Bearer"),
            _ => Self::not_a_consumer(error.to_string()),
        }
    }

    /// The request names no valid consumer id.
    pub(super) fn not_a_consumer(detail: String) -> Self {
        Self::of(ProblemDetails::unknown_consumer(detail))
    }

    pub(super) fn blocked() -> Self {
        Self::of(ProblemDetails::blocked())
    }

    /// The server has no consumers to manage.
    pub(super) fn no_consumers() -> Self {
        let detail = "this server has no consumers; add a section [consumers] to its config, as in `[consumers]` and \
                      `header = \"x-consumer-id\"`, and restart it (docs/guide/consumers.md)";
        Self::new(StatusCode::NOT_FOUND, "urn:tollway:no-consumers", "no consumers are configured", detail)
    }

    /// The record is invalid; nothing has changed.
    pub(super) fn bad_record(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:tollway:bad-record", "the record cannot be kept", detail)
    }
}

impl From<RecordsError> for Problem {
    fn from(error: RecordsError) -> Self {
        let detail = error.to_string();
        match error.fault {
            RecordsFault::Storage | RecordsFault::Network | RecordsFault::Busy => {
                Self::of(ProblemDetails::records_unavailable(detail)).with_header(RETRY_AFTER, "1")
            }
            RecordsFault::NotFound => {
                Self::new(StatusCode::NOT_FOUND, "urn:tollway:no-such-record", "no such record", detail)
            }
            RecordsFault::TooMany => Self::bad_record(detail),
        }
    }
}
