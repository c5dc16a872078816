//! Why a record, or a whole input, cannot be read.

use std::fmt;
use std::io;

use super::{ITEMS_MAX, NESTING_MAX, RECORD_BYTES_MAX};
use crate::JobError;

/// Why a record, or one item of it, is no job. The other items are.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordError {
    /// Which item of a list, from 1; none: the record is no list.
    pub item: Option<usize>,
    /// What is wrong.
    pub fault: RecordFault,
}

tollway_core::debug_as_display!(RecordError);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "item {item}: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

/// What is wrong with a record.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// It is too long to be read.
    #[error("longer than the {RECORD_BYTES_MAX} bytes that a record may have; skipped")]
    TooLong,
    /// It is not text.
    #[error("not UTF-8")]
    NotUtf8,
    /// It is not JSON.
    #[error("not JSON: {reason}")]
    NotJson {
        /// What the parser found.
        reason: String,
    },
    /// It ends within a JSON value, as the first line of an indented one does.
    #[error("the JSON ends early; write each record on one line, as `jq -c` does")]
    Unfinished,
    /// It is JSON, but not an object.
    #[error("a record is a JSON object, not {found}")]
    NotObject {
        /// The kind of value.
        found: &'static str,
    },
    /// No field identifies the job.
    #[error(
        "no field `key` or `chunk_key` identifies the job; name one with `--key`, or with `key` in the pipeline's \
         `source`"
    )]
    NoKey,
    /// A field that the source names is missing.
    #[error("the field `{field}`, the job's {meaning}, is missing or empty")]
    Missing {
        /// Its name.
        field: String,
        /// What the source uses it for.
        meaning: &'static str,
    },
    /// A field has a value that cannot be used.
    #[error("the field `{field}` must be {wanted}")]
    Field {
        /// Its name.
        field: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// It is an S3 object, and the source does not say what to make of it.
    #[error("an S3 object becomes a job by a `pattern`; add one to the pipeline's `source`")]
    NoPattern,
    /// It is an S3 object without a bucket.
    #[error("the object has no bucket; add `bucket` to the pipeline's `source`")]
    NoBucket,
    /// It is an S3 event without one of its fields.
    #[error("the S3 event has no `{field}`")]
    IncompleteEvent {
        /// What is missing.
        field: &'static str,
    },
    /// An object's key is not text after percent-decoding.
    #[error("the object's key is not UTF-8 after percent-decoding")]
    KeyNotUtf8,
    /// A list within a record is too long.
    #[error("more than {ITEMS_MAX} items in one record; split it. No item was taken")]
    TooManyItems,
    /// Lists or envelopes within each other.
    #[error("more than {NESTING_MAX} lists and envelopes around each other")]
    TooNested,
    /// A row of CSV has too few fields or too many.
    #[error("{found} fields, where the first line has {expected}")]
    Columns {
        /// How many it has.
        found: usize,
        /// How many the first line has.
        expected: usize,
    },
    /// A quote in CSV is not closed.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// The job is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
}

tollway_core::debug_as_display!(RecordFault);

/// Why nothing more can be read of an input.
#[derive(thiserror::Error)]
pub enum InputError {
    /// Reading failed.
    #[error("cannot read the input: {0}")]
    Io(#[from] io::Error),
    /// The first line of CSV does not name the fields.
    #[error("the first line of CSV names the fields, and {0}")]
    Header(String),
}

tollway_core::debug_as_display!(InputError);
