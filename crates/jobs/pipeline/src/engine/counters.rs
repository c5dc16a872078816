//! The kinds of counters. The numbers are stored and never change.

use crate::{Cause, Events, StageCounts, State};

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Jobs in a state.
    Jobs(State),
    /// Jobs that entered.
    Enqueued,
    /// Claims.
    Claimed,
    /// Jobs done.
    Completed,
    /// Attempts that did not finish their job.
    Attempts(Cause),
    /// Late answers.
    Late,
    /// Messages of a job that another message had brought already.
    Duplicates,
}

impl Kind {
    /// As it is stored.
    pub fn number(self) -> i64 {
        match self {
            Self::Jobs(state) => state.number(),
            Self::Enqueued => 7,
            Self::Claimed => 8,
            Self::Completed => 9,
            Self::Attempts(Cause::Failure) => 10,
            Self::Attempts(Cause::Crash) => 11,
            Self::Attempts(Cause::RateLimited) => 12,
            Self::Late => 13,
            Self::Duplicates => 14,
        }
    }
}

/// Puts a stored counter into the counts of its stage. An unknown kind comes from a newer version and is left out.
pub fn put(counts: &mut StageCounts, kind: i64, n: u64) {
    let events: &mut Events = &mut counts.events;
    let counter = match kind {
        0..=6 => usize::try_from(kind).ok().and_then(|index| counts.jobs.get_mut(index)),
        7 => Some(&mut events.enqueued),
        8 => Some(&mut events.claimed),
        9 => Some(&mut events.completed),
        10 => Some(&mut events.failures),
        11 => Some(&mut events.crashes),
        12 => Some(&mut events.rate_limited),
        13 => Some(&mut events.late),
        14 => Some(&mut events.duplicates),
        _ => None,
    };
    if let Some(counter) = counter {
        *counter = n;
    }
}
