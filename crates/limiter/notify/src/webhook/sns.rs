//! One attempt to publish an event in a topic of AWS SNS.

use aws_sdk_sns::Client;
use aws_sdk_sns::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sns::operation::publish::PublishError;
use aws_sdk_sns::types::MessageAttributeValue;
use tokio::sync::OnceCell;
use tollway_aws::{
    Connect, advice_on_credentials, advice_without_credentials, connect, lacks_credentials, lacks_right,
    with_causes,
};

use crate::webhook::SendOptions;
use crate::webhook::delivery::DeliveryOutcome;
use crate::webhook::event::Event;

/// The longest message that SNS takes. An event with more evidence is sent without it.
const MESSAGE_MAX: usize = 256 * 1024;

/// The longest subject of an e-mail that SNS takes.
const SUBJECT_MAX: usize = 100;

/// Codes of errors that end the same way however often the event is sent.
const REJECTED: [&str; 7] = [
    "AuthorizationError",
    "AccessDenied",
    "EndpointDisabled",
    "InvalidParameter",
    "InvalidParameterValue",
    "NotFound",
    "ValidationException",
];

/// A topic.
pub(crate) struct Topic {
    arn: String,
    connect: Connect,
    client: OnceCell<Client>,
}

impl Topic {
    pub(crate) fn new(arn: &str, connect: Connect, options: SendOptions) -> Self {
        let connect = Connect { timeout: Some(options.timeout), ..connect };
        Self { arn: arn.to_owned(), connect, client: OnceCell::new() }
    }

    pub(crate) fn arn(&self) -> &str {
        &self.arn
    }

    /// Whether it is there. A role that may only publish cannot tell, and then the topic counts as there.
    pub(crate) async fn check(&self) -> Result<(), String> {
        // A client of its own: connections of the other belong to the runtime of the sender's thread.
        let client = Client::new(&connect(&self.connect).await);
        let Err(error) = client.get_topic_attributes().topic_arn(&self.arn).send().await else {
            return Ok(());
        };
        let arn = &self.arn;
        match error.code() {
            Some(code) if lacks_right(code) => Ok(()),
            Some(code) if code.starts_with("NotFound") => Err(format!(
                "the topic {arn} does not exist: create it with `tollway provision aws --apply`, or correct `topic` of [incidents]"
            )),
            Some(code) => {
                let said = error.message().unwrap_or("no reason given");
                let advice = advice_on_credentials(code).map(|advice| format!("; {advice}"));
                Err(format!("the topic {arn}: {code}: {said}{}", advice.unwrap_or_default()))
            }
            None if lacks_credentials(&error) => {
                Err(format!("the topic {arn}: no credentials; {}", advice_without_credentials()))
            }
            None => Err(format!("the topic {arn}: {}", with_causes(&error))),
        }
    }

    pub(crate) async fn attempt(&self, event: &Event, body: Vec<u8>) -> DeliveryOutcome {
        let client = self.client.get_or_init(|| async { Client::new(&connect(&self.connect).await) }).await;
        let body = if body.len() > MESSAGE_MAX { event.body_without_detail() } else { body };
        let kind = MessageAttributeValue::builder().data_type("String").string_value(event.kind).build();
        let Ok(kind) = kind else { return DeliveryOutcome::Rejected("the event has no kind".to_owned()) };
        let call = client
            .publish()
            .topic_arn(&self.arn)
            .subject(subject(event))
            .message(String::from_utf8_lossy(&body))
            .message_attributes("event", kind);
        match call.send().await {
            Ok(_) => DeliveryOutcome::Delivered,
            Err(error) => judge(&error),
        }
    }
}

fn judge(error: &SdkError<PublishError>) -> DeliveryOutcome {
    let why = match error.code() {
        Some(code) => format!("SNS answered {code}: {}", error.message().unwrap_or("no reason given")),
        None => with_causes(error),
    };
    match error.code() {
        Some(code) if REJECTED.contains(&code) => DeliveryOutcome::Rejected(why),
        _ => DeliveryOutcome::Failed(why, None),
    }
}

/// For e-mails: printable ASCII, which does not begin with a space.
fn subject(event: &Event) -> String {
    let kind = event.kind.replace('_', " ");
    let text = if event.group.is_empty() {
        format!("tollway: {kind}")
    } else {
        format!("tollway: {kind}: {}", event.group)
    };
    let printable = |letter: char| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' };
    text.chars().map(printable).take(SUBJECT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway::Timestamp;

    #[test]
    fn subject_is_short_and_printable() {
        let now = Timestamp::EPOCH;
        let event = |group: &str| Event {
            kind: "alarm_over",
            group: group.to_owned(),
            id: String::new(),
            first_at: now,
            last_at: now,
            count: 1,
            detail: serde_json::Value::Null,
        };
        assert_eq!(
            subject(&event("pdf/autotag/dead_letters")),
            "tollway: alarm over: pdf/autotag/dead_letters"
        );
        let long = subject(&event(&"\u{e4}\n".repeat(200)));
        assert!(long.len() == SUBJECT_MAX && long.is_ascii() && !long.contains('\n'), "{long}");
    }
}
