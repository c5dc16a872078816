//! A traffic log: lines of a known format, read as calls. One format per file.
//!
//! `lines` splits what is read, `format` knows which formats there are and tells them apart, `fields` knows which field
//! means what, `time` reads moments, `reader` does all of it on a thread of its own.

mod clf;
mod csv;
mod fields;
mod format;
mod jsonl;
mod lines;
mod reader;
mod time;

use std::borrow::Cow;

use tollway::{Subject, Timestamp};

pub(super) use fields::{CostSource, Fields};
pub(super) use format::FormatName;
pub(super) use reader::{Log, Unreadable};

/// One line of a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) time: Timestamp,
    pub(super) subject: Subject,
    /// One amount for each cost that [`Fields`] names, in its order.
    pub(super) amounts: Vec<u64>,
}

/// Why a line is not a call. Words that most often need no memory of their own.
type Reason = Cow<'static, str>;

/// What stands in a field.
#[derive(Clone, Debug, Default, PartialEq)]
enum Value<'l> {
    #[default]
    Missing,
    Text(Cow<'l, str>),
    Whole(u64),
    Fraction(f64),
    /// A list, a truth value: nothing that any field of ours could mean.
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
