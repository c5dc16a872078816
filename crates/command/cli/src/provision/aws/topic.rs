//! The topic of SNS that incidents and alarms go to. Who subscribes to it is not described here.

use aws_sdk_sns::Client;
use aws_sdk_sns::error::ProvideErrorMetadata;
use aws_sdk_sns::types::Tag;
use tollway_aws::lacks_right;

use super::account::Account;
use super::error::ProvisionError;
use super::made_by::{TAG, TAG_VALUE, has_tag};
use super::report::State;

/// A needed topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicSpec {
    pub(super) arn: String,
}

impl TopicSpec {
    pub(super) fn details(&self) -> String {
        "subscribe to it who is to hear of alarms".to_owned()
    }

    /// The name is the last part of the ARN.
    pub(super) fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or(&self.arn)
    }

    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        match Client::new(&account.config).get_topic_attributes().topic_arn(&self.arn).send().await {
            Ok(_) => Ok(State::Ready),
            Err(error) if error.code().is_some_and(|code| code.starts_with("NotFound")) => Ok(State::Missing),
            // The topic of another account may be open for messages only.
            Err(error) if error.code().is_some_and(lacks_right) => {
                Ok(State::ReadyWith(format!("not checked: this role may not read {}", self.arn)))
            }
            Err(error) => Err(account.failed(&format!("looking for the topic {}", self.arn), &error)),
        }
    }

    /// Creates it in the account of the credentials, which must be that of its ARN.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let client = Client::new(&account.config);
        let failed = |error| account.failed(&format!("creating the topic {}", self.arn), &error);
        let mut call = client.create_topic().name(self.name());
        if let Ok(tag) = Tag::builder().key(TAG).value(TAG_VALUE).build() {
            call = call.tags(tag);
        }
        let made = call.send().await.map_err(failed)?.topic_arn.unwrap_or_default();
        if made == self.arn {
            return Ok(());
        }
        // It is not the topic of the config, so nothing uses it.
        let _ = client.delete_topic().topic_arn(&made).send().await;
        Err(ProvisionError {
            message: format!(
                "the topic {} is not in the account of these credentials, which makes {made}",
                self.arn
            ),
            advice: "correct `topic` of [incidents], or have it created in its own account".to_owned(),
        })
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        let tags = Client::new(&account.config).list_tags_for_resource().resource_arn(&self.arn).send().await;
        match tags {
            Ok(tags) => Ok(has_tag(tags.tags().iter().map(|tag| (tag.key(), tag.value())))),
            Err(error) if error.code().is_some_and(lacks_right) => Ok(false),
            Err(error) => Err(account.failed(&format!("reading the tags of the topic {}", self.arn), &error)),
        }
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let removed = Client::new(&account.config).delete_topic().topic_arn(&self.arn).send().await;
        removed.map(drop).map_err(|error| account.failed(&format!("deleting the topic {}", self.arn), &error))
    }
}
