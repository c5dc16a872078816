//! What goes wrong before anything is decided, or instead of it.

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
        let detail = format!("nobody can tell whom this request counts for: it needs {looked_for}");
        Self(ProblemDetails::unknown_client(detail))
    }

    pub(crate) fn unknown_peer() -> Self {
        tracing::error!("the address of a client is not known; does the server put it into the request?");
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
                tracing::error!(error = detail, "a request failed for a reason of the server's own");
                ProblemDetails::failed(detail)
            }
        })
    }
}
