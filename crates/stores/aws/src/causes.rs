//! Why a call to AWS failed, as one line: the SDK's own text ends with a debug dump.

use std::error::Error;
use std::iter::successors;

use aws_credential_types::provider::error::CredentialsError;

/// An error and its causes, the root cause last.
pub fn with_causes<'a>(error: &'a (dyn Error + 'static)) -> String {
    let causes = successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Whether a call was not sent because there are no credentials, or they could not be fetched.
pub fn lacks_credentials<'a>(error: &'a (dyn Error + 'static)) -> bool {
    let mut causes = successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source());
    causes.any(|cause| cause.is::<CredentialsError>())
}
