//! Errors of DynamoDB as store errors: their fault, and whether to retry.

use std::error::Error;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tollway_aws::{
    ADVICE_WORKER_RIGHTS, NoRegion, advice_on_credentials, advice_without_credentials, lacks_right,
};
use tollway_core::{Fault, Retry, StoreError};

/// What a request was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

impl Kind {
    /// A read changes nothing, so it may always be sent again.
    fn unclear(self) -> Retry {
        match self {
            Self::Read => Retry::Safe,
            Self::Write => Retry::Unclear,
        }
    }
}

/// The meaning of an error that no request expects. `service` names table and place: `DynamoDB, table tollway in eu-west-1`.
pub(crate) fn meaning<E>(service: &str, error: &SdkError<E, HttpResponse>, kind: Kind) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if let SdkError::ServiceError(said) = error {
        let server_failed = said.raw().status().is_server_error();
        let code = said.err().code().unwrap_or("no code");
        return refused(service, code, said.err().message(), server_failed, kind);
    }
    let causes = causes(error);
    if causes.iter().any(|cause| cause.is::<aws_credential_types::provider::error::CredentialsError>()) {
        return not_retryable(&format!("{service}: no credentials"), &advice_without_credentials());
    }
    if let SdkError::ConstructionFailure(_) = error {
        let message = format!("{service}: {}", last(&causes));
        return StoreError { fault: Fault::Store, retry: Retry::Useless, message };
    }
    let not_sent = causes.iter().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let mut not_sent = not_sent.filter(|io| io.kind() == std::io::ErrorKind::ConnectionRefused);
    let retry = if not_sent.next().is_some() { Retry::Safe } else { kind.unclear() };
    let message = match error {
        SdkError::TimeoutError(_) => format!("{service}: no answer in time"),
        _ => format!("{service}: {}", last(&causes)),
    };
    StoreError { fault: Fault::Network, retry, message }
}

const ADVICE_TABLE: &str = "create the table with `tollway provision aws --apply`, or correct its name, region or endpoint in the URL";

fn refused(service: &str, code: &str, said: Option<&str>, server_failed: bool, kind: Kind) -> StoreError {
    let message = format!("{service}: {code}: {}", said.unwrap_or("it gives no reason"));
    if let Some(advice) = advice_on_credentials(code) {
        return not_retryable(&message, advice);
    }
    let failed = |fault, retry| StoreError { fault, retry, message: message.clone() };
    match code {
        _ if is_throttle(code) => failed(Fault::Throttled, Retry::Safe),
        "ResourceNotFoundException" => not_retryable(&message, ADVICE_TABLE),
        _ if lacks_right(code) => not_retryable(&message, ADVICE_WORKER_RIGHTS),
        _ if server_failed => failed(Fault::Store, kind.unclear()),
        "ItemCollectionSizeLimitExceededException" => failed(Fault::Account, Retry::Useless),
        "ValidationException" if message.contains("Item size") => failed(Fault::Account, Retry::Useless),
        // Any other refusal would repeat, for this request and for others.
        _ => failed(Fault::Store, Retry::Useless),
    }
}

/// Whether a request was refused because there are too many.
pub(crate) fn is_throttle(code: &str) -> bool {
    matches!(
        code,
        "ProvisionedThroughputExceededException"
            | "ProvisionedThroughputExceeded"
            | "ThrottlingException"
            | "ThrottlingError"
            | "Throttling"
            | "RequestLimitExceeded"
    )
}

fn not_retryable(message: &str, advice: &str) -> StoreError {
    StoreError { fault: Fault::Store, retry: Retry::Useless, message: format!("{message}; {advice}") }
}

/// The service cannot be called at all, and a retry does not help.
pub(crate) fn no_region(error: NoRegion) -> StoreError {
    StoreError { fault: Fault::Store, retry: Retry::Useless, message: format!("DynamoDB: {error}") }
}

/// What is stored is not what this program writes.
pub(crate) fn unreadable(what: &str, why: &dyn std::fmt::Display) -> StoreError {
    let message = format!("`{what}` of an item in DynamoDB cannot be read: {why}");
    StoreError { fault: Fault::Account, retry: Retry::Useless, message }
}

/// Why an error came about, the first cause last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source()).collect()
}

fn last(causes: &[&(dyn Error + 'static)]) -> String {
    causes.last().map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G7: errors that affect every item are distinguished from those of one item.
    #[test]
    fn refused_items_are_distinguished_from_permission_errors() {
        let size = "Item size has exceeded the maximum allowed size";
        for (code, said, fault) in [
            ("AccessDeniedException", "", Fault::Store),
            ("ExpiredTokenException", "", Fault::Store),
            ("ResourceNotFoundException", "", Fault::Store),
            ("ValidationException", "The provided key element does not match the schema", Fault::Store),
            ("ValidationException", size, Fault::Account),
            ("ItemCollectionSizeLimitExceededException", "", Fault::Account),
        ] {
            let error = refused("DynamoDB", code, Some(said), false, Kind::Write);
            assert_eq!((error.fault, error.retry), (fault, Retry::Useless), "{code}: {said}");
        }
    }
}
