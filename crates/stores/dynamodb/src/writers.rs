//! The last write of each writer of an item, so that a writer whose reply was lost can look it up.

use std::fmt;
use std::str::FromStr;

use tollway_core::Timestamp;
use tollway_remote::ANSWER_KEPT;

/// How many writers an item remembers. Each is some 30 bytes, and a write costs by the kilobyte.
const WRITERS_MAX: usize = 128;

/// The last write of one writer. In an item: `WRITER SEQUENCE.ATTEMPT MILLISECONDS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriterRecord {
    pub(crate) writer: String,
    /// Of its call.
    pub(crate) sequence: u64,
    /// Counts the attempts of that call.
    pub(crate) attempt: u32,
    /// When, in milliseconds since 1970; never before that of an earlier write.
    pub(crate) at: u64,
}

impl fmt::Display for WriterRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, sequence, attempt, at } = self;
        write!(f, "{writer} {sequence}.{attempt} {at}")
    }
}

impl FromStr for WriterRecord {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let mut words = text.split(' ');
            let writer = words.next()?.to_owned();
            let (sequence, attempt) = words.next()?.split_once('.')?;
            let at = words.next()?.parse().ok()?;
            Some(Self { writer, sequence: sequence.parse().ok()?, attempt: attempt.parse().ok()?, at })
        };
        read().ok_or("a writer is written as WRITER SEQUENCE.ATTEMPT MILLISECONDS")
    }
}

/// The writers of an item, the last one last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writers {
    pub(crate) records: Vec<WriterRecord>,
    /// The latest write that was forgotten to make room, in milliseconds since 1970.
    pub(crate) pushed_out: u64,
}

impl Writers {
    /// Notes a write, and drops records that no writer will look up any more.
    pub(crate) fn note(&mut self, writer: &str, sequence: u64, attempt: u32, now: Timestamp) {
        let at = now.as_millis().max(self.records.last().map_or(0, |last| last.at));
        let kept_from = at.saturating_sub(kept_millis());
        self.records.retain(|record| record.writer != writer && record.at >= kept_from);
        self.records.push(WriterRecord { writer: writer.to_owned(), sequence, attempt, at });
        while self.records.len() > WRITERS_MAX {
            self.pushed_out = self.records.remove(0).at;
        }
        if self.pushed_out < kept_from {
            self.pushed_out = 0;
        }
    }

    /// The last write of this writer, if it is remembered.
    pub(crate) fn of(&self, writer: &str) -> Option<&WriterRecord> {
        self.records.iter().find(|record| record.writer == writer)
    }

    /// Whether a write of this time, had there been one, could have been forgotten.
    pub(crate) fn may_have_forgotten(&self, at: Timestamp) -> bool {
        let too_old = self.records.last().map_or(0, |last| last.at.saturating_sub(kept_millis()));
        let at = at.as_millis();
        at < too_old || (self.pushed_out > 0 && at <= self.pushed_out)
    }
}

fn kept_millis() -> u64 {
    u64::try_from(ANSWER_KEPT.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_767_268_800);

    fn after(millis: u64) -> Timestamp {
        Timestamp::from_millis(NOON.as_millis() + millis)
    }

    #[test]
    fn a_record_reads_back_as_itself() {
        let record =
            WriterRecord { writer: "x7-_".to_owned(), sequence: 9, attempt: 2, at: 1_767_268_800_123 };
        assert_eq!(record.to_string().parse(), Ok(record));
        for wrong in ["", "x", "x 1", "x 1.1", "x 1 1", "x 1.1 y"] {
            assert!(wrong.parse::<WriterRecord>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_writer_is_remembered_once_and_for_a_minute() {
        let mut writers = Writers::default();
        writers.note("a", 1, 1, NOON);
        writers.note("b", 5, 1, after(1_000));
        writers.note("a", 2, 1, after(2_000));
        assert_eq!(writers.of("a").map(|record| record.sequence), Some(2));
        writers.note("a", 3, 1, after(61_000));
        assert!(writers.of("b").is_some());
        writers.note("a", 4, 1, after(61_001));
        assert!(writers.of("b").is_none());
        assert!(writers.may_have_forgotten(after(1_000)));
        assert!(!writers.may_have_forgotten(after(1_001)));
    }

    #[test]
    fn an_evicted_writer_can_tell_that_it_may_be_evicted() {
        let mut writers = Writers::default();
        for number in 0..=WRITERS_MAX as u64 {
            writers.note(&format!("w{number}"), 1, 1, after(number));
        }
        assert_eq!(writers.records.len(), WRITERS_MAX);
        assert!(writers.of("w0").is_none() && writers.may_have_forgotten(NOON));
        assert!(writers.of("w1").is_some() && !writers.may_have_forgotten(after(1)));
        writers.note("later", 1, 1, after(120_000));
        assert_eq!((writers.records.len(), writers.pushed_out), (1, 0));
    }

    #[test]
    fn a_lagging_clock_does_not_write_earlier_times() {
        let mut writers = Writers::default();
        writers.note("ahead", 1, 1, after(2_000));
        writers.note("behind", 1, 1, NOON);
        assert_eq!(writers.of("behind").map(|record| record.at), Some(after(2_000).as_millis()));
    }
}
