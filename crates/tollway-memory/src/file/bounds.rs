//! Every bound of the file store, in one place, each with its reason.

/// The most lines a file keeps that are not yet as good as new. A take for one more subject is an error.
///
/// Every process reads all of them when it starts, so this also bounds how long a short command takes to begin.
pub const FILE_LINES_MAX: usize = 100_000;

/// The largest file. A command that has to read more than this would not be short.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// The largest record. Only lines that hold slots by the ten thousand come near it.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Once the lines that wait to be written have this size, they are written before more is decided.
pub(super) const RECORD_BYTES_SOFT: usize = 1 << 20;

/// A file below this size is never compacted: reading it takes less than a millisecond.
pub(super) const COMPACT_BYTES_MIN: u64 = 64 << 10;

/// A file is compacted once it is this many times larger than its live lines need.
pub(super) const COMPACT_FACTOR: u64 = 4;

/// How many requests may wait for the writer. One more is an error, never a block.
pub const FILE_QUEUE_MAX: usize = 4_096;

/// How many requests are served under one lock, so that other processes get their turn.
pub(super) const COMBINED_MAX: usize = 256;

/// How many lines that are as good as new are forgotten at once when the file has no room.
pub(super) const FORGOTTEN_AT_ONCE: usize = 1_024;
