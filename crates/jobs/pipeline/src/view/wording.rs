//! How sentences name times and commands.

use jiff::tz::TimeZone;
use tollway_core::Timestamp;
use tollway_core::humanize::{self, printable_name};

/// How sentences name times and commands.
#[derive(Clone, Debug)]
pub struct Wording {
    /// The zone of their times: that of the reader.
    pub zone: TimeZone,
    /// The pipeline that commands name; none: the config has only one.
    pub pipeline: Option<String>,
}

impl Wording {
    /// A command to type: `tollway pipeline -p pdf resume extract`.
    pub fn command(&self, rest: &str) -> String {
        match &self.pipeline {
            Some(name) => format!("tollway pipeline -p {name} {rest}"),
            None => format!("tollway pipeline {rest}"),
        }
    }

    pub(super) fn moment(&self, at: Timestamp, now: Timestamp) -> String {
        humanize::moment(at, now, &self.zone)
    }
}

/// A text as one word of a shell, without control characters.
pub fn shell_word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    match !text.is_empty() && text.chars().all(safe) {
        true => text.to_owned(),
        false => format!("'{}'", printable_name(text).replace('\'', "'\\''")),
    }
}
