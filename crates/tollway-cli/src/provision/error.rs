//! Errors of reading or creating AWS resources.

use tollway_aws::with_causes;

/// An error of reading or creating a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProvisionError {
    /// What happened.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) advice: String,
}

/// The error of AWS, or of reaching it, with advice.
pub(super) fn failed<E, R>(what: &str, error: &aws_sdk_dynamodb::error::SdkError<E, R>) -> ProvisionError
where
    E: std::error::Error + aws_sdk_dynamodb::error::ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    use aws_sdk_dynamodb::error::ProvideErrorMetadata;
    let (message, advice) = match error.code() {
        Some(code) => {
            let said = error.message().unwrap_or("no reason given");
            let denied = code.contains("AccessDenied") || code.contains("NotAuthorized");
            let advice =
                if denied { "give your role the policy `operator` that --plan prints" } else { "try again" };
            (format!("{what}: {code}: {said}"), advice)
        }
        None => (
            format!("{what}: cannot reach AWS: {}", with_causes(error)),
            "set AWS_REGION and your credentials, as for every AWS tool",
        ),
    };
    ProvisionError { message, advice: advice.to_owned() }
}
