//! What a record is, by its shape: an S3 event, an envelope around records, a list of records, or a job.

use serde_json::value::RawValue;
use tollway_core::Timestamp;

use super::error::{RecordError, RecordFault};
use super::exported::{exported_job, is_exported};
use super::fields::{Fields, not_an_object, not_json};
use super::object::{Object, ObjectOutcome, decode_key};
use super::{ITEMS_MAX, NESTING_MAX, RecordJobs, Source};

/// Fields in which AWS lists records: events for Lambda, and answers of SQS.
const AWS_LISTS: [&str; 2] = ["Records", "Messages"];

/// Fields in which input of Step Functions lists items: batches of a distributed map, and chunks of a file.
const ITEM_LISTS: [&str; 2] = ["Items", "chunks"];

/// A record that is being read.
pub(super) struct Reading<'s> {
    source: &'s Source,
    now: Timestamp,
    read: RecordJobs,
    /// Jobs, skipped events and errors so far.
    items: usize,
    in_list: bool,
}

impl<'s> Reading<'s> {
    pub(super) fn new(source: &'s Source, now: Timestamp) -> Self {
        Self { source, now, read: RecordJobs::default(), items: 0, in_list: false }
    }

    pub(super) fn finish(self) -> RecordJobs {
        if self.items > ITEMS_MAX { RecordJobs::error(RecordFault::TooManyItems) } else { self.read }
    }

    pub(super) fn value(&mut self, text: &str, nesting: usize) {
        let text = text.trim();
        let read = match text.as_bytes().first() {
            _ if nesting > NESTING_MAX => Err(RecordFault::TooNested),
            Some(b'[') => self.list(text, nesting),
            Some(b'{') => self.object(text, nesting),
            _ => Err(not_an_object(text)),
        };
        if let Err(fault) = read {
            self.items += 1;
            let item = self.in_list.then_some(self.items);
            self.read.errors.push(RecordError { item, fault });
        }
    }

    fn list(&mut self, text: &str, nesting: usize) -> Result<(), RecordFault> {
        let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| not_json(&error))?;
        self.in_list = true;
        for item in items {
            if self.items > ITEMS_MAX {
                break;
            }
            self.value(item.get(), nesting + 1);
        }
        Ok(())
    }

    fn object(&mut self, text: &str, nesting: usize) -> Result<(), RecordFault> {
        let fields = Fields::parse(text)?;
        if fields.string("Event").as_deref() == Some("s3:TestEvent") {
            self.items += 1;
            self.read.skipped.test_events += 1;
        } else if fields.has("s3") && fields.has("eventName") {
            self.s3_record(&fields)?;
        } else if fields.has("detail-type") && fields.has("detail") && fields.has("source") {
            self.event_bridge(&fields, nesting)?;
        } else if is_exported(&fields) {
            let job = exported_job(&fields)?;
            self.items += 1;
            self.read.jobs.push(job);
        } else if let Some(message) = enclosed(&fields) {
            self.value(&message, nesting + 1);
        } else if self.source.objects.is_some() && fields.has("Size") && fields.string("Key").is_some() {
            self.listed_object(&fields)?;
        } else if let Some(list) = self.list_of(&fields) {
            self.value(list, nesting + 1);
        } else {
            let job = self.source.job(&fields, text)?;
            self.items += 1;
            self.read.jobs.push(job);
        }
        Ok(())
    }

    /// One record of an S3 notification. Keys are percent-encoded there.
    fn s3_record(&mut self, fields: &Fields<'_>) -> Result<(), RecordFault> {
        let event = fields.string("eventName").unwrap_or_default();
        // MinIO names events with the prefix that S3 has only in its configuration.
        if !event.trim_start_matches("s3:").starts_with("ObjectCreated:") {
            return self.other_event();
        }
        let missing = |field| RecordFault::IncompleteEvent { field };
        let bucket = fields.string_at(&["s3", "bucket", "name"]).ok_or(missing("s3.bucket.name"))?;
        let key = fields.string_at(&["s3", "object", "key"]).ok_or(missing("s3.object.key"))?;
        self.s3_object(Some(bucket), decode_key(&key)?, fields, "eventTime")
    }

    /// An event of EventBridge: of S3, or with a record as its detail.
    fn event_bridge(&mut self, fields: &Fields<'_>, nesting: usize) -> Result<(), RecordFault> {
        if fields.string("source").as_deref() != Some("aws.s3") {
            self.value(fields.json("detail").unwrap_or_default(), nesting + 1);
            return Ok(());
        }
        if fields.string("detail-type").as_deref() != Some("Object Created") {
            return self.other_event();
        }
        let missing = |field| RecordFault::IncompleteEvent { field };
        let bucket = fields.string_at(&["detail", "bucket", "name"]).ok_or(missing("detail.bucket.name"))?;
        let key = fields.string_at(&["detail", "object", "key"]).ok_or(missing("detail.object.key"))?;
        self.s3_object(Some(bucket), key, fields, "time")
    }

    /// An object of a listing. Step Functions lists objects without their bucket.
    fn listed_object(&mut self, fields: &Fields<'_>) -> Result<(), RecordFault> {
        let key = fields.string("Key").unwrap_or_default();
        self.s3_object(fields.string("Bucket"), key, fields, "LastModified")
    }

    fn other_event(&mut self) -> Result<(), RecordFault> {
        self.items += 1;
        self.read.skipped.other_events += 1;
        Ok(())
    }

    fn s3_object(
        &mut self,
        bucket: Option<String>,
        key: String,
        fields: &Fields<'_>,
        time_field: &str,
    ) -> Result<(), RecordFault> {
        let objects = self.source.objects.as_ref().ok_or(RecordFault::NoPattern)?;
        // The event's time, so that the same event has the same data whenever it is read.
        let time = fields.time(time_field).ok().flatten().unwrap_or(self.now);
        match objects.read(Object { bucket, key, time })? {
            ObjectOutcome::Filtered => self.read.skipped.filtered += 1,
            ObjectOutcome::Unmatched => self.read.skipped.unmatched += 1,
            ObjectOutcome::Message(message) => {
                let data = serde_json::to_string(&message).map_err(|error| not_json(&error))?;
                let job = self.source.job(&Fields::parse(&data)?, &data)?;
                self.read.jobs.push(job);
            }
        }
        self.items += 1;
        Ok(())
    }

    /// The list that a record is an envelope of. A record that is a job itself may have such a field, too.
    fn list_of<'a>(&self, fields: &Fields<'a>) -> Option<&'a str> {
        let list = |name: &str| fields.json(name).filter(|json| json.starts_with('['));
        if let Some(json) = self.source.items.as_deref().and_then(list) {
            return Some(json);
        }
        if self.source.identifies(fields) {
            return None;
        }
        let usual = ITEM_LISTS.iter().filter(|_| self.source.items.is_none());
        let of_objects = |json: &&str| json[1..].trim_start().starts_with(['{', ']']);
        AWS_LISTS.iter().chain(usual).filter_map(|name| list(name)).find(of_objects)
    }
}

/// The message inside a message of SQS or SNS.
fn enclosed(fields: &Fields<'_>) -> Option<String> {
    // A body alone is no sign: a job that sends e-mail has one, too.
    for (sign, body) in [("receiptHandle", "body"), ("ReceiptHandle", "Body"), ("TopicArn", "Message")] {
        if fields.has(sign)
            && let Some(message) = fields.string(body)
        {
            return Some(message);
        }
    }
    fields.string_at(&["Sns", "Message"])
}
