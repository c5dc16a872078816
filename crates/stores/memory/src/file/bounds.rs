//! Every bound of the file store, with its reason.

/// The most unexpired accounts in a file. A take for one more subject is an error.
///
/// Every process reads all of them at its start, so this also bounds the start time of a short command.
pub const FILE_ACCOUNTS_MAX: usize = 100_000;

/// The largest file. It bounds the start time of a short command.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// The largest record. Only accounts with ten thousands of slots come near it.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Once the unwritten accounts reach this size, they are written before the next command.
pub(super) const RECORD_BYTES_SOFT: usize = 1 << 20;

/// A file below this size is never compacted: reading it takes less than a millisecond.
pub(super) const COMPACT_BYTES_MIN: u64 = 64 << 10;

/// A file is compacted once it is this many times larger than its live accounts need.
pub(super) const COMPACT_FACTOR: u64 = 4;

/// The most commands that wait for the writer. One more is an error; it never blocks.
pub const FILE_QUEUE_MAX: usize = 4_096;

/// The most commands served under one lock, so that other processes get the lock too.
pub(super) const COMBINED_MAX: usize = 256;

/// The fewest expired accounts to look for when the file is full.
pub(super) const DELETED_AT_ONCE: usize = 1_024;
