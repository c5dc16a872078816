//! The way to AWS for provisioning: with a timeout and retries of its own, because those of a store are made for takes.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tollway_aws::{
    Connect, SdkConfig, advice_on_credentials, advice_without_credentials, check_region, connect,
    lacks_credentials, lacks_right, place_of, with_causes,
};

use super::error::ProvisionError;

/// An attempt is answered within this time. Creating a table or an alarm takes AWS a second or two.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How often a call is sent. Each can be repeated: what exists already is no error.
const ATTEMPTS_MAX: u32 = 5;

/// The pause before the second attempt, which doubles.
const BACKOFF: Duration = Duration::from_millis(200);

/// What to do if AWS says that the role may not.
const ADVICE_RIGHTS: &str = "give your role the policy that `tollway provision aws --iam provisioner` prints";

const ADVICE_AGAIN: &str = "try again: what was created stays, and the next run goes on from there";

/// Region, endpoint and credentials, as they were found.
#[derive(Debug)]
pub(crate) struct Account {
    /// What clients are made of.
    pub(super) config: SdkConfig,
}

impl Account {
    /// Finds region and credentials.
    pub(crate) async fn find(to: &Connect) -> Result<Self, ProvisionError> {
        let to = Connect { timeout: Some(ANSWER_WITHIN), ..to.clone() };
        let config = connect(&to).await;
        check_region(&config).map_err(|error| ProvisionError {
            message: format!("cannot reach AWS: {error}"),
            advice: "set AWS_REGION, or a profile that has a region".to_owned(),
        })?;
        let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(BACKOFF);
        Ok(Self { config: config.into_builder().retry_config(retries).build() })
    }

    /// The region, for widgets.
    pub(super) fn region(&self) -> String {
        self.config.region().map(ToString::to_string).unwrap_or_default()
    }

    /// The error of AWS, or of reaching it, with advice. `what` names the resource: `reading the table tollway`.
    pub(super) fn failed<E, R>(&self, what: &str, error: &SdkError<E, R>) -> ProvisionError
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug + 'static,
    {
        let what = format!("{what}{}", place_of(&self.config));
        let Some(code) = error.code() else { return unreachable(&what, error) };
        let said = error.message().unwrap_or("no reason given");
        let advice = match code {
            _ if lacks_right(code) => ADVICE_RIGHTS,
            "AWS.SimpleQueueService.QueueDeletedRecently" | "QueueDeletedRecently" => {
                "a queue of this name was just deleted: try again in a minute"
            }
            _ => advice_on_credentials(code).unwrap_or(ADVICE_AGAIN),
        };
        ProvisionError { message: format!("{what}: {code}: {said}"), advice: advice.to_owned() }
    }
}

fn unreachable<E, R>(what: &str, error: &SdkError<E, R>) -> ProvisionError
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    if lacks_credentials(error) {
        let message = format!("{what}: no credentials");
        return ProvisionError { message, advice: advice_without_credentials() };
    }
    let message = match error {
        SdkError::TimeoutError(_) => {
            format!("{what}: no answer within {} s, {ATTEMPTS_MAX} times", ANSWER_WITHIN.as_secs())
        }
        _ => format!("{what}: cannot reach AWS: {}", with_causes(error)),
    };
    let advice = "check region and endpoint, and that this machine reaches it; what was created stays";
    ProvisionError { message, advice: advice.to_owned() }
}
