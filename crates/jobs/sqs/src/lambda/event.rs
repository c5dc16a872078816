//! An event of SQS as Lambda gets it, and the answer to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The largest event that Lambda hands over.
pub const EVENT_BYTES_MAX: usize = 6 << 20;

/// The most messages in an event, for batches with a window.
const RECORDS_MAX: usize = 10_000;

/// Messages of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SqsEvent {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<SqsRecord>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecord {
    /// What tells it from others.
    pub message_id: String,
    /// What tells this delivery from others.
    pub receipt_handle: String,
    /// The job's JSON, or a record that a source reads.
    pub body: String,
    /// The ARN of its queue.
    #[serde(rename = "eventSourceARN")]
    pub event_source_arn: String,
    #[serde(default)]
    message_attributes: BTreeMap<String, MessageAttribute>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageAttribute {
    string_value: Option<String>,
}

/// An event that cannot be read. The function's trigger is wrong, not a message.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It is too large.
    #[error("an event has at most {EVENT_BYTES_MAX} bytes and {RECORDS_MAX} messages")]
    TooLarge,
    /// It is something else.
    #[error("not an event of SQS: {0}; set the queue of a stage as the trigger of this function")]
    NotSqs(String),
}

tollway_core::debug_as_display!(EventError);

impl SqsEvent {
    /// Reads an event.
    pub fn parse(text: &str) -> Result<Self, EventError> {
        if text.len() > EVENT_BYTES_MAX {
            return Err(EventError::TooLarge);
        }
        let event: Self =
            serde_json::from_str(text).map_err(|error| EventError::NotSqs(error.to_string()))?;
        if event.records.len() > RECORDS_MAX { Err(EventError::TooLarge) } else { Ok(event) }
    }
}

impl SqsRecord {
    /// The name of its queue.
    pub fn queue(&self) -> &str {
        self.event_source_arn.rsplit(':').next().unwrap_or_default()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.message_attributes.get(name)?.string_value.as_deref()
    }
}

/// The messages that SQS should deliver again: the answer to an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchFailures {
    #[serde(rename = "batchItemFailures")]
    failures: Vec<BatchFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct BatchFailure {
    #[serde(rename = "itemIdentifier")]
    message_id: String,
}

impl BatchFailures {
    pub(super) fn new(ids: impl IntoIterator<Item = String>) -> Self {
        Self { failures: ids.into_iter().map(|message_id| BatchFailure { message_id }).collect() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.failures.len()
    }

    /// Whether all messages are done.
    pub fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// As Lambda expects it.
    pub fn to_json(&self) -> String {
        // Only a map with keys that are not strings could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"Records": [{
        "messageId": "059f36b4", "receiptHandle": "AQEB", "body": "{\"chunk_key\": \"a b\"}",
        "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {},
        "md5OfBody": "e4e68fb7", "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:adobe-autotag-queue", "awsRegion": "eu-west-1"
    }]}"#;

    #[test]
    fn messages_of_an_event_are_read() {
        let attributes =
            r#""messageAttributes": {"tollway-key": {"stringValue": "a", "dataType": "String"}}"#;
        let event = SqsEvent::parse(&EVENT.replace(r#""messageAttributes": {}"#, attributes)).unwrap();
        let record = &event.records[0];
        assert_eq!((record.queue(), record.receipt_handle.as_str()), ("adobe-autotag-queue", "AQEB"));
        assert_eq!((record.attribute("tollway-key"), record.attribute("other")), (Some("a"), None));
    }

    #[test]
    fn other_events_are_refused_with_advice() {
        for text in ["{}", "[]", "no JSON", r#"{"Records": [{"eventSource": "aws:s3"}]}"#] {
            let error = SqsEvent::parse(text).unwrap_err().to_string();
            assert!(error.contains("as the trigger of this function"), "{error}");
        }
        assert_eq!(SqsEvent::parse(&" ".repeat(EVENT_BYTES_MAX + 1)), Err(EventError::TooLarge));
    }

    #[test]
    fn failures_are_what_lambda_expects() {
        let failures = BatchFailures::new(["a".to_owned()]);
        assert_eq!(failures.to_json(), r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#);
        assert_eq!(BatchFailures::default().to_json(), r#"{"batchItemFailures":[]}"#);
    }
}
