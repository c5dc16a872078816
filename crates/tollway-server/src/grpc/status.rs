//! How a call that is not answered ends: a code, and words for whoever reads the proxy's log.

use hyper::header::{HeaderName, HeaderValue};
use tollway::core::Fault;
use tollway::{BindError, TakeError};
use tollway_inbound::escapes::escaped;

use super::CONTENT_TYPE_GRPC;
use crate::http::Response;

pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Those of gRPC's codes that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// Why a call was not answered. Nothing was taken.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// As an answer that has nothing but its end.
    pub(super) fn into_response(self) -> Response {
        let mut response = Response::default();
        let headers = response.headers_mut();
        headers.insert(hyper::header::CONTENT_TYPE, CONTENT_TYPE_GRPC);
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        if let Ok(message) = HeaderValue::try_from(escaped(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        response
    }
}

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Self {
        let code = match &error {
            TakeError::Name(_) | TakeError::Cost(_) | TakeError::Refused(_) => Code::InvalidArgument,
            // A rule outlived its policy for the moment of a reload.
            TakeError::UnknownPolicy { .. } => Code::FailedPrecondition,
            TakeError::Store(error) if error.fault == Fault::Caller => Code::InvalidArgument,
            // The proxy's own setting says what it does then (`failure_mode_deny`).
            TakeError::Store(_) => Code::Unavailable,
            TakeError::Denied(_) | TakeError::BlockingInAsync | TakeError::Runtime(_) => {
                tracing::error!(%error, "a call failed for a reason of the server's own");
                Code::Internal
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Self::new(Code::FailedPrecondition, error.to_string())
    }
}
