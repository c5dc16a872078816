//! Errors that prevent a decision.

use http::StatusCode;
use tollway::TakeError;
use tollway_inbound::problem::ProblemDetails;

/// Why a request is not passed on although no limit was reached.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) ProblemDetails);

impl Problem {
    pub(crate) fn not_a_subject(detail: String) -> Self {
        Self(ProblemDetails::bad_name(detail))
    }

    pub(crate) fn unknown_subject(looked_for: &str) -> Self {
        let detail = format!("the request has no subject: it needs {looked_for}");
        Self(ProblemDetails::unknown_client(detail))
    }

    pub(crate) fn unknown_peer() -> Self {
        tracing::error!("a request has no client address; the server must add it to the request");
        let detail = "the server does not know the client's address";
        Self(ProblemDetails { status: 500, ..ProblemDetails::unknown_client(detail) })
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        let detail = error.to_string();
        Self(match &error {
            TakeError::Name(_) => ProblemDetails::bad_name(detail),
            TakeError::Cost(_) => ProblemDetails::bad_cost(detail),
            TakeError::Refused(_) => ProblemDetails::refused(detail),
            TakeError::Store(error) => ProblemDetails::of_store(error),
            TakeError::UnknownPolicy { .. }
            | TakeError::Denied(_)
            | TakeError::BlockingInAsync
            | TakeError::Runtime(_) => {
                tracing::error!(error = detail, "a request failed with an internal error");
                ProblemDetails::failed(detail)
            }
        })
    }
}
