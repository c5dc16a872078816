//! Which command is sent, over which connection, and whose answers were read before: the store keeps the others, in case they
//! are lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::primary::Primary;

/// How many answers that were read are remembered for the next command. Those beyond are dropped by the store in time.
const READ_MAX: usize = 1_024;

/// One command among those of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of the connection: the store refuses a copy of a call that comes over an older one.
    pub(crate) connection: u64,
    /// The primary that the connection leads to, if it is known.
    pub(crate) primary: Option<Primary>,
    /// The number of the command.
    pub(crate) command: u64,
    /// The commands whose answers were read, and which the store may still keep.
    pub(crate) read: Vec<u64>,
}

/// Counts the commands of this process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    commands: AtomicU64,
    read: Mutex<Vec<u64>>,
}

impl Turns {
    /// The next command.
    pub(crate) fn next(&self, connection: u64, primary: Option<Primary>) -> Turn {
        let command = self.commands.fetch_add(1, Ordering::Relaxed);
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Turn { connection, primary, command, read }
    }

    /// Notes that the answers of a command were read, which the store keeps. It has dropped those that the command named.
    pub(crate) fn note_read(&self, turn: &Turn, kept: AnswersKept) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|command| !turn.read.contains(command));
        if kept == AnswersKept::InVain && read.len() < READ_MAX {
            read.push(turn.command);
        }
    }
}

/// That the store keeps the answers of a command that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswersKept {
    /// Each call was sent only once: no copy of it is on its way, and nothing asks for the answers.
    InVain,
    /// A call was sent before, and its copy may still arrive.
    ForCopies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_said_until_the_store_has_dropped_it() {
        let turns = Turns::default();
        let first = turns.next(3, None);
        assert_eq!(first, Turn { connection: 3, primary: None, command: 0, read: Vec::new() });
        turns.note_read(&first, AnswersKept::InVain);
        // A denial: the store has written nothing, and dropped nothing.
        let denied = turns.next(3, None);
        let granted = turns.next(3, None);
        assert_eq!((&*denied.read, &*granted.read), (&[0][..], &[0][..]));
        turns.note_read(&granted, AnswersKept::ForCopies);
        assert_eq!(turns.next(3, None).read, [] as [u64; 0]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let turns = Turns::default();
        let all: Vec<Turn> = (0..5_000).map(|_| turns.next(0, None)).collect();
        all.iter().for_each(|turn| turns.note_read(turn, AnswersKept::InVain));
        assert_eq!(turns.next(0, None).read.len(), READ_MAX);
    }
}
