//! A traffic log, read as calls.
//!
//! `lines` splits bytes into lines of bounded length, `format` detects the format, `jsonl`, `csv` and `clf` read one each,
//! `fields` maps fields to time, subject and costs, `time` reads timestamps, `reader` runs all of it on its own thread.

mod clf;
mod csv;
mod fields;
mod format;
mod jsonl;
mod lines;
mod reader;
mod time;

use std::borrow::Cow;

use tollway_core::{Subject, Timestamp};

pub use fields::{CostSource, Fields, Source, TIME_NAMES};
pub use format::LogFormat;
pub use lines::{LINE_BYTES_MAX, LINE_BYTES_SKIPPED_MAX, LOG_BYTES_MAX};
pub use reader::{Batch, Log, Unreadable};

/// One line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedCall {
    /// When it was made.
    pub time: Timestamp,
    /// By whom.
    pub subject: Subject,
    /// One amount for each unit of [`Log::units`], in its order.
    pub amounts: Vec<u64>,
}

/// Why a line is not a call.
type Reason = Cow<'static, str>;

/// The value of a field.
#[derive(Clone, Debug, Default, PartialEq)]
enum Value<'l> {
    #[default]
    Missing,
    Text(Cow<'l, str>),
    Whole(u64),
    Fraction(f64),
    /// A list, an object or a boolean, which is never a time, a subject or an amount.
    Other,
}

impl Value<'_> {
    /// As text, for messages and for subjects.
    fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Whole(number) => Some(Cow::Owned(number.to_string())),
            Self::Fraction(number) => Some(Cow::Owned(number.to_string())),
            Self::Missing | Self::Other => None,
        }
    }
}
