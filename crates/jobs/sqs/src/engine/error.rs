//! Maps errors of AWS to engine errors: whose fault, what to do, and whether to retry.

use std::error::Error;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use tollway_aws::{
    ADVICE_WORKER_RIGHTS, advice_on_credentials, advice_without_credentials, lacks_credentials, lacks_right,
    with_causes,
};
use tollway_core::Retry;
use tollway_pipeline::{EngineError, EngineFault};

const ADVICE_MISSING: &str = "create it with `tollway provision aws --apply` or create=yes in the engine's URL, or correct its name, region or endpoint";
const ADVICE_REDRIVE_POLICY: &str = "a move task needs a redrive policy that names this queue: \
     `tollway provision aws --apply` sets it; or leave --move-task out";
const ADVICE_CLOCK: &str = "set this machine's clock right";

/// The meaning of a call to `service` that failed.
pub(super) fn failed<E>(service: &str, error: &SdkError<E, HttpResponse>) -> EngineError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if let SdkError::ServiceError(said) = error {
        let code = said.err().code().unwrap_or("no code");
        let server_failed = said.raw().status().is_server_error();
        return refused(service, code, said.err().message().unwrap_or("it gives no reason"), server_failed);
    }
    if lacks_credentials(error) {
        return storage(Retry::Safe, format!("{service}: no credentials; {}", advice_without_credentials()));
    }
    let message = match error {
        SdkError::TimeoutError(_) => format!("{service} did not answer in time"),
        SdkError::ConstructionFailure(_) => {
            return storage(Retry::Useless, format!("{service}: {}", with_causes(error)));
        }
        _ => format!("{service}: {}", with_causes(error)),
    };
    EngineError { fault: EngineFault::Network, retry: Retry::Unclear, message }
}

/// The meaning of a code, of a call or of one entry of a batch.
pub(super) fn refused(service: &str, code: &str, said: &str, server_failed: bool) -> EngineError {
    // Old names of errors of SQS have this in front.
    let code = code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code);
    let message = format!("{service}: {code}: {said}");
    let is_clock = matches!(code, "RequestExpired" | "SignatureDoesNotMatch")
        && (said.contains("expired") || said.contains("clock"));
    if is_clock {
        return storage(Retry::Safe, format!("{message}; {ADVICE_CLOCK}"));
    }
    if let Some(advice) = advice_on_credentials(code) {
        // Credentials of a role are renewed while the process works.
        return storage(Retry::Safe, format!("{message}; {advice}"));
    }
    match code {
        "RequestThrottled"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "SlowDown"
        | "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "OverLimit"
        | "KmsThrottled"
        | "KMS.ThrottlingException" => EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message },
        // Codes of move tasks: only the text tells them apart.
        _ if said.contains("already a task running") => {
            EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message }
        }
        _ if said.contains("must be configured as a Dead Letter Queue") => {
            storage(Retry::Useless, format!("{message}; {ADVICE_REDRIVE_POLICY}"))
        }
        "NonExistentQueue" | "QueueDoesNotExist" | "ResourceNotFoundException" => {
            storage(Retry::Useless, format!("{message}; {ADVICE_MISSING}"))
        }
        "InvalidMessageContents" | "BatchRequestTooLong" | "InvalidParameterValue" => {
            EngineError::caller(message)
        }
        _ if lacks_right(code) => storage(Retry::Useless, format!("{message}; {ADVICE_WORKER_RIGHTS}")),
        _ if server_failed => storage(Retry::Unclear, message),
        _ => storage(Retry::Useless, message),
    }
}

/// A storage that fails.
pub(super) fn storage(retry: Retry, message: impl Into<String>) -> EngineError {
    EngineError::storage(retry, message)
}

/// Whether the same call may succeed soon.
pub(super) fn is_passing(error: &EngineError) -> bool {
    error.retry != Retry::Useless && matches!(error.fault, EngineFault::Busy | EngineFault::Network)
        || error.fault == EngineFault::Storage && error.retry == Retry::Unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_name_the_fault_and_the_retry() {
        for (code, fault, retry, advice) in [
            ("AWS.SimpleQueueService.NonExistentQueue", EngineFault::Storage, Retry::Useless, "create"),
            ("QueueDoesNotExist", EngineFault::Storage, Retry::Useless, "provision aws --apply"),
            ("AccessDeniedException", EngineFault::Storage, Retry::Useless, "--iam worker"),
            ("AccessDenied", EngineFault::Storage, Retry::Useless, "role"),
            ("RequestThrottled", EngineFault::Busy, Retry::Safe, ""),
            ("OverLimit", EngineFault::Busy, Retry::Safe, ""),
            ("ExpiredToken", EngineFault::Storage, Retry::Safe, "aws sso login"),
            ("InvalidClientTokenId", EngineFault::Storage, Retry::Safe, "AWS_PROFILE"),
            ("InvalidMessageContents", EngineFault::Caller, Retry::Useless, ""),
        ] {
            let error = refused("SQS", code, "why", false);
            assert_eq!((error.fault, error.retry), (fault, retry), "{code}");
            assert!(error.message.contains(advice), "{error}");
        }
        let code = "InvalidParameterValue";
        let busy = refused("SQS", code, "There is already a task running. Only one active task is", false);
        assert_eq!((busy.fault, busy.retry), (EngineFault::Busy, Retry::Safe), "{busy}");
        let policy = refused("SQS", code, "Source queue must be configured as a Dead Letter Queue.", false);
        assert!(policy.message.contains("provision aws --apply"), "{policy}");
        let clock = refused("SQS", "SignatureDoesNotMatch", "Signature expired: 20260101", false);
        assert!(clock.message.contains("clock"), "{clock}");
    }
}
