//! Making what Tollway needs on AWS: first look, then make what is missing, and change nothing else.
//!
//! `table` and `parameter` each know one kind of thing: what is wanted, what is there, how it is made.

mod parameter;
mod table;

pub use parameter::{ParameterFound, ParameterWanted};
pub use table::{TableFound, TableWanted, Tables};

use crate::causes::with_causes;

/// Why something could not be looked at or made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProvisionError {
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// What AWS said, or why nobody said anything, and what to do about it.
fn failed<E, R>(what: &str, error: &aws_sdk_dynamodb::error::SdkError<E, R>) -> ProvisionError
where
    E: std::error::Error + aws_sdk_dynamodb::error::ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    use aws_sdk_dynamodb::error::ProvideErrorMetadata;
    let (message, advice) = match error.code() {
        Some(code) => {
            let said = error.message().unwrap_or("it gives no reason");
            let denied = code.contains("AccessDenied") || code.contains("NotAuthorized");
            let advice =
                if denied { "give your role the policy `operator` that --plan prints" } else { "try again" };
            (format!("{what}: {code}: {said}"), advice)
        }
        None => (
            format!("{what}: AWS could not be asked: {}", with_causes(error)),
            "set AWS_REGION and your credentials, as for every AWS tool",
        ),
    };
    ProvisionError { message, advice: advice.to_owned() }
}
