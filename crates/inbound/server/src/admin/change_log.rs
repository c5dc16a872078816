//! The last changes that operators made through this process, for a page that shows them. The log of the process has all.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollway::Timestamp;

/// How many changes are kept: more than anybody scrolls back to, in some hundred kilobytes.
const CHANGES_MAX: usize = 1_000;

/// The longest text of a change that is kept, in characters.
const TEXT_MAX: usize = 200;

/// A change that an operator made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// The name of the token and the address.
    pub who: String,
    /// The policy or the pipeline that was changed.
    pub target: String,
    /// What of it, such as the name of a limit.
    pub what: String,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
}

/// The last changes, the oldest first.
#[derive(Debug, Default)]
pub struct ChangeLog(Mutex<VecDeque<Change>>);

impl ChangeLog {
    /// Adds a change. The oldest goes when there are too many.
    pub fn note(&self, change: Change) {
        let short = |text: String| match text.char_indices().nth(TEXT_MAX) {
            Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
            None => text,
        };
        let change =
            Change { what: short(change.what), from: short(change.from), to: short(change.to), ..change };
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() >= CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// The changes of a policy or a pipeline, the newest first.
    pub fn of(&self, target: &str) -> Vec<Change> {
        let changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter().rev().filter(|change| change.target == target).cloned().collect()
    }
}
