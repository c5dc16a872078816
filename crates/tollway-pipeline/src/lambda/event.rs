//! An event of SQS as Lambda gets it, and the answer to it.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use tollway_core::{Name, Timestamp};

use crate::source::Source;
use crate::{JobError, NewJob};

/// The largest event that Lambda hands over.
pub const EVENT_BYTES_MAX: usize = 6 << 20;

/// The most messages in an event, for batches with a window.
const RECORDS_MAX: usize = 10_000;

/// Attributes of messages that the SQS engine sent.
const KEY: &str = "tollway-key";
const GROUP: &str = "tollway-group";
const PRIORITY: &str = "tollway-priority";

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

    /// Its jobs for this stage; an error if it is not readable.
    pub(super) fn jobs(&self, stage: &Name, source: &Source, now: Timestamp) -> Result<Vec<NewJob>, String> {
        if let Some(key) = self.attribute(KEY) {
            return self.job_of_engine(stage, &key).map(|job| vec![job]).map_err(|error| error.to_string());
        }
        let read = Source { stage: stage.clone(), ..source.clone() }.read(&self.body, now);
        match read.errors.first() {
            Some(error) => Err(error.to_string()),
            None => Ok(read.jobs),
        }
    }

    fn job_of_engine(&self, stage: &Name, key: &str) -> Result<NewJob, JobError> {
        let job = NewJob::new(stage, key, &self.body)?;
        let priority = self.attribute(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0);
        let job = job.priority(priority);
        match self.attribute(GROUP) {
            Some(group) => job.group(&group),
            None => Ok(job),
        }
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let value = self.message_attributes.get(name)?.string_value.as_ref()?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
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

    fn autotag() -> Name {
        Name::new("autotag").unwrap()
    }

    #[test]
    fn message_of_an_old_producer_is_a_job_by_its_body() {
        let event = SqsEvent::parse(EVENT).unwrap();
        let record = &event.records[0];
        assert_eq!(record.queue(), "adobe-autotag-queue");
        let jobs = record.jobs(&autotag(), &Source::new(autotag()), Timestamp::EPOCH).unwrap();
        assert_eq!(jobs, [NewJob::new(&autotag(), "a b", "{\"chunk_key\": \"a b\"}").unwrap()]);
    }

    #[test]
    fn message_of_the_engine_is_a_job_by_its_attributes() {
        let attributes = r#""messageAttributes": {"tollway-key": {"stringValue": "a%20b>autotag.0", "dataType": "String"},
            "tollway-priority": {"stringValue": "7", "dataType": "String"}}"#;
        let event = SqsEvent::parse(&EVENT.replace(r#""messageAttributes": {}"#, attributes)).unwrap();
        let jobs = event.records[0].jobs(&autotag(), &Source::new(autotag()), Timestamp::EPOCH).unwrap();
        let wanted =
            NewJob::new(&autotag(), "a b>autotag.0", "{\"chunk_key\": \"a b\"}").unwrap().priority(7);
        assert_eq!(jobs, [wanted]);
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
