//! A queue of SQS, with its dead-letter queue.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::QueueAttributeName::{
    self, MessageRetentionPeriod, QueueArn, RedrivePolicy, VisibilityTimeout,
};
use serde_json::{Value, json};
use tollway::Span;

use super::account::Account;
use super::error::ProvisionError;
use super::made_by::{TAG, TAG_VALUE, has_tag};
use super::report::State;

/// The longest name of a queue.
const NAME_MAX: usize = 80;

/// The longest visibility timeout that SQS has.
const VISIBILITY_MAX: Span = Span::from_mins(12 * 60);

/// How long SQS can keep a message.
const RETENTION: std::ops::RangeInclusive<Span> = Span::from_mins(1)..=Span::from_days(14);

/// A needed queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueSpec {
    pub(super) name: String,
    visibility: Span,
    retention: Span,
    /// Where messages go that were received too often.
    pub(super) dead_letters: Option<DeadLetters>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadLetters {
    pub(super) queue: String,
    pub(super) max_receives: u32,
}

impl QueueSpec {
    /// A queue that SQS can have; otherwise why it cannot.
    pub(super) fn new(
        name: &str,
        visibility: Span,
        retention: Span,
        dead_letters: Option<DeadLetters>,
    ) -> Result<Self, String> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
            return Err(format!(
                "the name of a queue has 1 to {NAME_MAX} letters, digits, `-` and `_`, not {name:?}"
            ));
        }
        if visibility > VISIBILITY_MAX {
            return Err(format!("a visibility timeout on SQS is at most {VISIBILITY_MAX}, not {visibility}"));
        }
        if !RETENTION.contains(&retention) {
            let (least, most) = (RETENTION.start(), RETENTION.end());
            return Err(format!("SQS keeps messages for {least} to {most}, not for {retention}"));
        }
        Ok(Self { name: name.to_owned(), visibility, retention, dead_letters })
    }

    pub(super) fn details(&self) -> String {
        let own = format!("visibility {}, kept for {}", self.visibility, self.retention);
        match &self.dead_letters {
            Some(dead) => format!("{own}; after {} receives to {}", dead.max_receives, dead.queue),
            None => own,
        }
    }

    /// Its properties in a template; `arn_of` refers to another queue.
    pub(super) fn properties(&self, arn_of: impl Fn(&str) -> Value) -> Value {
        let mut properties = json!({
            "QueueName": self.name,
            "VisibilityTimeout": seconds(self.visibility),
            "MessageRetentionPeriod": seconds(self.retention),
        });
        if let Some(dead) = &self.dead_letters {
            properties["RedrivePolicy"] =
                json!({ "deadLetterTargetArn": arn_of(&dead.queue), "maxReceiveCount": dead.max_receives });
        }
        properties
    }

    pub(super) async fn look(&self, account: &Account) -> Result<State, ProvisionError> {
        let queues = Queues::of(account);
        let Some(url) = queues.url(&self.name).await? else { return Ok(State::Missing) };
        let found = queues.attributes(&url, &self.name).await?;
        Ok(match self.difference(&found) {
            Some(difference) => State::Incomplete(difference),
            None => State::Ready,
        })
    }

    /// Creates it, or sets what is different.
    pub(super) async fn make(&self, account: &Account) -> Result<(), ProvisionError> {
        let queues = Queues::of(account);
        let wanted = Some(self.attributes(&queues).await?);
        match queues.url(&self.name).await? {
            Some(url) => {
                let set = queues.client.set_queue_attributes().queue_url(url).set_attributes(wanted);
                set.send().await.map(drop).map_err(|error| queues.failed("changing", &self.name, &error))
            }
            None => {
                let made = queues.client.create_queue().queue_name(&self.name).set_attributes(wanted);
                let made = made.tags(TAG, TAG_VALUE).send().await;
                made.map(drop).map_err(|error| queues.failed("creating", &self.name, &error))
            }
        }
    }

    pub(super) async fn is_ours(&self, account: &Account) -> Result<bool, ProvisionError> {
        let queues = Queues::of(account);
        let Some(url) = queues.url(&self.name).await? else { return Ok(false) };
        let tags = queues.client.list_queue_tags().queue_url(url).send().await;
        let tags = tags.map_err(|error| queues.failed("reading the tags of", &self.name, &error))?;
        let tags = tags.tags.unwrap_or_default();
        Ok(has_tag(tags.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }

    pub(super) async fn remove(&self, account: &Account) -> Result<(), ProvisionError> {
        let queues = Queues::of(account);
        let Some(url) = queues.url(&self.name).await? else { return Ok(()) };
        let removed = queues.client.delete_queue().queue_url(url).send().await;
        removed.map(drop).map_err(|error| queues.failed("deleting", &self.name, &error))
    }

    async fn attributes(
        &self,
        queues: &Queues<'_>,
    ) -> Result<HashMap<QueueAttributeName, String>, ProvisionError> {
        let mut wanted = HashMap::from([
            (VisibilityTimeout, seconds(self.visibility).to_string()),
            (MessageRetentionPeriod, seconds(self.retention).to_string()),
        ]);
        if let Some(dead) = &self.dead_letters {
            let arn = queues.arn(&dead.queue).await?;
            let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": dead.max_receives });
            wanted.insert(RedrivePolicy, policy.to_string());
        }
        Ok(wanted)
    }

    /// What of an existing queue is not as wanted.
    fn difference(&self, found: &HashMap<QueueAttributeName, String>) -> Option<String> {
        let number = |name| found.get(&name).and_then(|text: &String| text.parse::<u64>().ok()).unwrap_or(0);
        let (visibility, retention) = (number(VisibilityTimeout), number(MessageRetentionPeriod));
        if visibility != seconds(self.visibility) {
            return Some(format!("its visibility timeout is {visibility} s"));
        }
        if retention != seconds(self.retention) {
            return Some(format!("it keeps messages for {retention} s"));
        }
        let dead = self.dead_letters.as_ref()?;
        let policy = found.get(&RedrivePolicy).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let policy = policy.unwrap_or_default();
        let to = policy["deadLetterTargetArn"].as_str().unwrap_or_default();
        // SQS shows the number as it was set: as a number or as a text.
        let receives = &policy["maxReceiveCount"];
        let receives = receives.as_u64().or_else(|| receives.as_str()?.parse().ok()).unwrap_or(0);
        let same =
            to.rsplit(':').next() == Some(dead.queue.as_str()) && receives == u64::from(dead.max_receives);
        (!same).then(|| match to {
            "" => "it has no dead-letter queue".to_owned(),
            to => format!("after {receives} receives its messages go to {to}"),
        })
    }
}

fn seconds(span: Span) -> u64 {
    span.as_micros() / 1_000_000
}

/// The calls that several steps share.
struct Queues<'a> {
    client: Client,
    account: &'a Account,
}

impl<'a> Queues<'a> {
    fn of(account: &'a Account) -> Self {
        Self { client: Client::new(&account.config), account }
    }

    fn failed<E, R>(&self, doing: &str, name: &str, error: &SdkError<E, R>) -> ProvisionError
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug + 'static,
    {
        self.account.failed(&format!("{doing} the queue {name}"), error)
    }

    async fn url(&self, name: &str) -> Result<Option<String>, ProvisionError> {
        match self.client.get_queue_url().queue_name(name).send().await {
            Ok(found) => Ok(found.queue_url),
            Err(error) if error.as_service_error().is_some_and(|said| said.is_queue_does_not_exist()) => {
                Ok(None)
            }
            Err(error) => Err(self.failed("looking for", name, &error)),
        }
    }

    async fn attributes(
        &self,
        url: &str,
        name: &str,
    ) -> Result<HashMap<QueueAttributeName, String>, ProvisionError> {
        let call = self.client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let found = call.send().await.map_err(|error| self.failed("reading", name, &error))?;
        Ok(found.attributes.unwrap_or_default())
    }

    async fn arn(&self, name: &str) -> Result<String, ProvisionError> {
        let missing = || ProvisionError {
            message: format!("the dead-letter queue {name} does not exist"),
            advice: "try again: it is created first".to_owned(),
        };
        let url = self.url(name).await?.ok_or_else(missing)?;
        self.attributes(&url, name).await?.remove(&QueueArn).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_that_sqs_cannot_have_is_refused() {
        let queue = |name: &str, visibility, retention| QueueSpec::new(name, visibility, retention, None);
        let (quarter, week) = (Span::from_mins(15), Span::from_days(7));
        assert!(queue("adobe-autotag-queue", quarter, week).is_ok());
        for (made, says) in [
            (queue("a b", quarter, week), "the name of a queue"),
            (queue("", quarter, week), "the name of a queue"),
            (queue("a", Span::from_days(1), week), "at most 12h"),
            (queue("a", quarter, Span::from_days(15)), "SQS keeps messages"),
        ] {
            let error = made.unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
