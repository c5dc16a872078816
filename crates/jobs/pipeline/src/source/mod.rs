//! Sources: jobs made of the records that people have.
//!
//! A record is JSON, and its shape says what it is:
//!
//! - an S3 notification, an EventBridge event of S3, or an object of a listing: each created object is a job;
//! - a message of SQS or SNS: what it contains is the record;
//! - a list, or an object with a list (`Records`, `Messages`, `Items`, `chunks`): each item is a record;
//! - a dead letter that was exported: the job it was, in its own stage ([`export`]);
//! - any other object: it is a job's data, byte for byte.
//!
//! ```
//! use tollway_core::Timestamp;
//! use tollway_pipeline::{ConfigWithPipelines, NewJob};
//!
//! let config = ConfigWithPipelines::parse(r#"
//!     [pipelines.pdf]
//!     engine = "sqlite:pdf.db"
//!     stages = [{ name = "autotag" }, { name = "extract" }]
//!     [pipelines.pdf.source]
//!     pattern = "uploads/{job_id}/chunks/{name}.pdf"
//!     original_file_key = "uploads/{job_id}/original.pdf"
//! "#)?;
//! let source = &config.pipeline("pdf").unwrap().source;
//! let notification = r#"{"Records": [{
//!     "eventName": "ObjectCreated:Put",
//!     "eventTime": "2025-02-19T10:30:00.000Z",
//!     "s3": {"bucket": {"name": "pdfs"}, "object": {"key": "uploads/job-123/chunks/chunk+1.pdf"}}
//! }]}"#;
//! let read = source.read(notification, Timestamp::from_secs(1_739_961_000));
//! let key = "uploads/job-123/chunks/chunk 1.pdf";
//! let data = r#"{"bucket":"pdfs","chunk_key":"uploads/job-123/chunks/chunk 1.pdf","original_file_key":"#.to_owned()
//!     + r#""uploads/job-123/original.pdf","job_id":"job-123","timestamp":"2025-02-19T10:30:00Z"}"#;
//! assert_eq!(read.jobs, [NewJob::new(&source.stage, key, &data)?.group("job-123")?]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Records`] reads a file or a stream record by record.

mod csv;
mod error;
mod exported;
mod fields;
mod input;
mod line;
mod object;
mod pattern;
mod shape;
mod time;

use std::fmt;

use tollway_core::{Name, Timestamp};

pub use error::{InputError, RecordError, RecordFault};
pub use exported::export;
pub use input::{Format, Records};
pub use object::Objects;
pub use pattern::{Pattern, PatternError, Template};
pub use time::read_time;

use crate::NewJob;
use crate::bounds::{JOB_BYTES_MAX, OUTPUTS_MAX};

/// The longest record: the largest data of a job, with all of its quotes escaped by an envelope, and the envelope.
pub const RECORD_BYTES_MAX: usize = 2 * JOB_BYTES_MAX + (64 << 10);

/// The most items of a record that is a list: as many as a job may hand on.
pub const ITEMS_MAX: usize = OUTPUTS_MAX;

/// The most lists and envelopes around each other. A notification in SNS in SQS in a Lambda event needs six.
const NESTING_MAX: usize = 8;

/// How records become jobs: `[pipelines.NAME.source]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The stage that jobs enter.
    pub stage: Name,
    /// The fields whose values are a job's key; empty: `key`, and otherwise `chunk_key`.
    pub key: Vec<String>,
    /// The field whose value is a job's group; none: `job_id`, if a record has it.
    pub group: Option<String>,
    /// The field whose value is a job's priority.
    pub priority: Option<String>,
    /// The field whose value is the time before which a job is not started.
    pub not_before: Option<String>,
    /// The field that lists a record's items; none: `Items` and `chunks`.
    pub items: Option<String>,
    /// How S3 objects become jobs; none: they are errors.
    pub objects: Option<Objects>,
}

impl Source {
    /// A source with all defaults for this stage.
    pub fn new(stage: Name) -> Self {
        Self {
            stage,
            key: Vec::new(),
            group: None,
            priority: None,
            not_before: None,
            items: None,
            objects: None,
        }
    }

    /// The jobs of one record. The same record always has jobs of the same keys.
    ///
    /// ```
    /// use tollway_core::{Name, Timestamp};
    /// use tollway_pipeline::NewJob;
    /// use tollway_pipeline::source::Source;
    ///
    /// let source = Source { key: vec!["id".to_owned()], ..Source::new(Name::new("resize")?) };
    /// let read = source.read(r#"{"id":  7}"#, Timestamp::EPOCH);
    /// assert_eq!(read.jobs, [NewJob::new(&source.stage, "7", r#"{"id":  7}"#)?]);
    /// let read = source.read(r#"[{"id": 8}, {"name": "x"}]"#, Timestamp::EPOCH);
    /// assert_eq!(read.jobs.len(), 1);
    /// assert_eq!(read.errors[0].to_string(), "item 2: the field `id`, the job's key, is missing or empty");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self, record: &str, now: Timestamp) -> RecordJobs {
        if record.len() > RECORD_BYTES_MAX {
            return RecordJobs::error(RecordFault::TooLong);
        }
        let mut reading = shape::Reading::new(self, now);
        reading.value(record, 0);
        reading.finish()
    }
}

/// What one record contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordJobs {
    /// Its jobs.
    pub jobs: Vec<NewJob>,
    /// Its events that are no jobs.
    pub skipped: Skipped,
    /// What cannot be read. The rest of the record is read all the same.
    pub errors: Vec<RecordError>,
}

impl RecordJobs {
    fn error(fault: RecordFault) -> Self {
        Self { errors: vec![RecordError { item: None, fault }], ..Self::default() }
    }
}

/// How many events are no jobs, by reason.
///
/// ```
/// use tollway_pipeline::source::Skipped;
///
/// let mut skipped = Skipped { test_events: 1, ..Skipped::default() };
/// skipped.add(Skipped { unmatched: 2, ..Skipped::default() });
/// assert_eq!(skipped.to_string(), "1 test event, 2 objects that do not match `pattern`");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// `s3:TestEvent`, which S3 sends when notifications are set up.
    pub test_events: u64,
    /// Events of S3 other than the creation of an object, such as deletions.
    pub other_events: u64,
    /// Objects whose key has another prefix or suffix.
    pub filtered: u64,
    /// Objects whose key does not match the pattern.
    pub unmatched: u64,
}

impl Skipped {
    /// Adds the counts of another record.
    pub fn add(&mut self, other: Self) {
        self.test_events += other.test_events;
        self.other_events += other.other_events;
        self.filtered += other.filtered;
        self.unmatched += other.unmatched;
    }

    /// All of them.
    pub fn total(self) -> u64 {
        self.test_events + self.other_events + self.filtered + self.unmatched
    }
}

impl fmt::Display for Skipped {
    /// Each count above 0 with its reason; `none` if there is no such count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.test_events, "test event", "test events", ""),
            (self.other_events, "event", "events", " other than a creation"),
            (self.filtered, "object", "objects", " outside `prefix` and `suffix`"),
            (self.unmatched, "object that does", "objects that do", " not match `pattern`"),
        ];
        let mut separator = "";
        for (count, one, many, rest) in counts.into_iter().filter(|(count, ..)| *count > 0) {
            let noun = if count == 1 { one } else { many };
            write!(f, "{separator}{count} {noun}{rest}")?;
            separator = ", ";
        }
        if self.total() == 0 { f.write_str("none") } else { Ok(()) }
    }
}
