//! Tollway's stores for one machine.
//!
//! [`MemoryStore`] keeps lines in this process, bounded, and answers at once. [`FileStore`] keeps them in a file that
//! many processes share. Both only make [`tollway_core::apply`] atomic; neither knows an algorithm.

mod clock;
mod file;
mod memory;
mod sync;

pub use clock::{SystemClock, WallClock};
pub use file::{FILE_BYTES_MAX, FILE_LINES_MAX, FILE_QUEUE_MAX, FileError, FileStore, RECORD_BYTES_MAX};
pub use memory::{LINES_DEFAULT, MemoryStats, MemoryStore, OVERFLOW_LINES, SHARDS};
