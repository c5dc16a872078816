//! Errors of reading or creating AWS resources.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tollway_aws::with_causes;

/// What to do if AWS says that the role may not.
pub(super) const DENIED: &str =
    "give your role the policy that `tollway provision aws --iam provisioner` prints";

/// An error of reading or creating a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProvisionError {
    /// What happened.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) advice: String,
}

/// The error of AWS, or of reaching it, with advice.
pub(super) fn failed<E, R>(what: &str, error: &SdkError<E, R>) -> ProvisionError
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    let (message, advice) = match error.code() {
        Some(code) => {
            let said = error.message().unwrap_or("no reason given");
            let denied = code.contains("AccessDenied") || code.contains("NotAuthorized");
            let advice = match code {
                _ if denied => DENIED,
                "AWS.SimpleQueueService.QueueDeletedRecently" | "QueueDeletedRecently" => {
                    "a queue of this name was just deleted: try again in a minute"
                }
                _ => "try again: what was created stays, and the next run goes on from there",
            };
            (format!("{what}: {code}: {said}"), advice)
        }
        None => (
            format!("{what}: cannot reach AWS: {}", with_causes(error)),
            "set AWS_REGION and your credentials, as for every AWS tool",
        ),
    };
    ProvisionError { message, advice: advice.to_owned() }
}
