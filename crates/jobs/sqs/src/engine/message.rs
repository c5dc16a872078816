//! Messages: the body is exactly the job's JSON, and what else belongs to the job is in attributes.

use std::collections::HashMap;

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tollway_core::{Name, Timestamp};
use tollway_pipeline::engine::checks::check_data;
use tollway_pipeline::{Job, JobId, NewJob};

use super::record::{LedgerRecord, MessageOf};
use crate::lambda::SqsRecord;

/// The names of our attributes. SQS allows ten.
const ID: &str = "tollway-id";
const KEY: &str = "tollway-key";
const GROUP: &str = "tollway-group";
const PRIORITY: &str = "tollway-priority";
const DUE: &str = "tollway-due";
const CREATED: &str = "tollway-created";
const PARENT: &str = "tollway-parent";
/// The last claim of a dead letter, in its message in the queue of dead letters. Tools that move such a message redrive the job.
const DEAD: &str = "tollway-dead";
/// The same in a message that we sent to redrive the job.
const REDRIVES: &str = "tollway-redrives";
const ERROR: &str = "tollway-error";

/// How much of an error a dead letter's message carries.
const ERROR_BYTES_MAX: usize = 256;

/// Attributes take no control characters, and lose no space.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b' ');

/// A message to send.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) body: String,
    pub(super) attributes: HashMap<String, MessageAttributeValue>,
    pub(super) delay_seconds: i32,
}

impl Outgoing {
    /// The message of a job that waits.
    pub(super) fn of(record: &LedgerRecord, now: Timestamp) -> Self {
        let Job { id, key, group, priority, due_at, created_at, .. } = &record.job;
        let mut attributes = HashMap::new();
        put(&mut attributes, ID, &id.to_string());
        put(&mut attributes, KEY, key);
        put(&mut attributes, CREATED, &created_at.as_micros().to_string());
        if let Some(group) = group {
            put(&mut attributes, GROUP, group);
        }
        if *priority != 0 {
            put(&mut attributes, PRIORITY, &priority.to_string());
        }
        if *due_at > now {
            put(&mut attributes, DUE, &due_at.as_micros().to_string());
        }
        if let Some(parent) = record.parent {
            put(&mut attributes, PARENT, &parent.to_string());
        }
        Self { body: record.job.data.clone(), attributes, delay_seconds: delay(*due_at, now) }
    }

    /// The same with a body that the ledger may not have.
    pub(super) fn with_body(record: &LedgerRecord, body: &str, now: Timestamp) -> Self {
        Self { body: body.to_owned(), ..Self::of(record, now) }
    }

    /// The message that redrives a dead letter.
    pub(super) fn redriving(record: &LedgerRecord, body: &str, now: Timestamp) -> Self {
        let mut message = Self::with_body(record, body, now);
        put(&mut message.attributes, REDRIVES, &record.job.claim_number.to_string());
        message.delay_seconds = 0;
        message
    }

    /// The message of a dead letter, for their queue.
    pub(super) fn of_dead(record: &LedgerRecord, body: &str, now: Timestamp) -> Self {
        let mut message = Self::with_body(record, body, now);
        put(&mut message.attributes, DEAD, &record.job.claim_number.to_string());
        let error = &record.job.error;
        if !error.is_empty() {
            put(&mut message.attributes, ERROR, &error[..error.floor_char_boundary(ERROR_BYTES_MAX)]);
        }
        message.delay_seconds = 0;
        message
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |(name, value): (&String, &MessageAttributeValue)| {
            name.len() + value.string_value.as_ref().map_or(0, String::len) + 16
        };
        self.body.len() + self.attributes.iter().map(of).sum::<usize>()
    }
}

fn put(attributes: &mut HashMap<String, MessageAttributeValue>, name: &str, value: &str) {
    let value = utf8_percent_encode(value, ESCAPED).to_string();
    let value = MessageAttributeValue::builder().data_type("String").string_value(value).build();
    attributes.extend(value.ok().map(|value| (name.to_owned(), value)));
}

/// SQS delays a message by at most 15 minutes; then it is hidden again.
fn delay(due_at: Timestamp, now: Timestamp) -> i32 {
    seconds_until(due_at, now).min(900)
}

/// Whole seconds until a time, at most the twelve hours that SQS hides a message.
pub(super) fn seconds_until(at: Timestamp, now: Timestamp) -> i32 {
    let seconds = at.since(now).as_micros().div_ceil(1_000_000).min(12 * 3_600);
    i32::try_from(seconds).unwrap_or(0)
}

/// A message that was received.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) of: MessageOf,
    pub(super) body: String,
    /// The job's id, if the message is one of ours.
    pub(super) id: Option<JobId>,
    pub(super) key: String,
    /// The last claim of the dead letter that it redrives.
    pub(super) redrives: Option<u64>,
    /// It was written as a dead letter, and not moved by SQS.
    pub(super) is_dead_letter: bool,
    pub(super) parent: Option<JobId>,
    pub(super) created_at: Option<Timestamp>,
    /// Why it cannot be a job, although it is JSON.
    refused: Option<String>,
    group: Option<String>,
    priority: i16,
    due_at: Timestamp,
}

impl Incoming {
    pub(super) fn read(message: Message) -> Option<Self> {
        let attributes = message.message_attributes.unwrap_or_default();
        let of = MessageOf { id: message.message_id?, receipt: message.receipt_handle? };
        let get = |name: &str| attributes.get(name)?.string_value.as_deref();
        Some(Self::new(of, message.body.unwrap_or_default(), get))
    }

    /// A message that was handed over.
    pub(super) fn of_record(record: &SqsRecord) -> Self {
        let of = MessageOf { id: record.message_id.clone(), receipt: record.receipt_handle.clone() };
        Self::new(of, record.body.clone(), |name| record.attribute(name))
    }

    fn new<'a>(of: MessageOf, body: String, attribute: impl Fn(&str) -> Option<&'a str>) -> Self {
        let get = |name: &str| Some(percent_decode_str(attribute(name)?).decode_utf8_lossy().into_owned());
        let number = |name: &str| get(name)?.parse::<u64>().ok();
        let ours = number(ID).map(JobId::new).zip(get(KEY));
        // Another program's message is known by the id that SQS gives it.
        let key = ours.as_ref().map_or_else(|| format!("sqs:{}", of.id), |(_, key)| key.clone());
        Self {
            body,
            id: ours.map(|(id, _)| id),
            key,
            redrives: number(REDRIVES).or_else(|| number(DEAD)),
            is_dead_letter: number(DEAD).is_some(),
            parent: number(PARENT).map(JobId::new),
            created_at: number(CREATED).map(Timestamp::from_micros),
            refused: None,
            group: get(GROUP),
            priority: get(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0),
            due_at: number(DUE).map_or(Timestamp::EPOCH, Timestamp::from_micros),
            of,
        }
    }

    /// Takes over the job that a source has read from it.
    pub(super) fn become_job(&mut self, job: NewJob) {
        // Id and time are those of the message.
        let job = job.into_job(JobId::new(0), Timestamp::EPOCH);
        (self.key, self.group, self.priority) = (job.key, job.group, job.priority);
        (self.due_at, self.body) = (job.due_at, job.data);
    }

    /// It cannot be a job, for this reason.
    pub(super) fn refuse(&mut self, why: String) {
        self.refused = Some(why);
    }

    /// The job that it brings, or why it cannot be one.
    pub(super) fn job(&self, id: JobId, stage: &Name, now: Timestamp) -> Result<Job, String> {
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        check_data(&self.body).map_err(|error| error.to_string())?;
        Ok(self.job_with(id, stage, &self.body, now))
    }

    /// The same with other data.
    pub(super) fn job_with(&self, id: JobId, stage: &Name, data: &str, now: Timestamp) -> Job {
        let created_at = self.created_at.unwrap_or(now);
        let (stage, key) = (stage.clone(), self.key.clone());
        let job = Job::waiting(id, stage, key, data.to_owned(), self.due_at, created_at);
        Job { group: self.group.clone(), priority: self.priority, ..job }
    }
}
