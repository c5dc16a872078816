//! The stores for one machine.
//!
//! [`MemoryStore`] keeps a bounded number of accounts in this process and answers at once. [`FileStore`] keeps them in a
//! file that several processes share. Both only make [`tollway_core::apply`] atomic.

mod backoff;
mod clock;
mod file;
mod memory;
mod state_clock;
mod sync;

pub use clock::{SystemClock, WallClock};
pub use file::{FILE_ACCOUNTS_MAX, FILE_BYTES_MAX, FILE_QUEUE_MAX, FileError, FileStore, RECORD_BYTES_MAX};
pub use memory::{ACCOUNTS_DEFAULT, KeptDenial, MemoryStats, MemoryStore, OVERFLOW_ACCOUNTS, SHARDS};
pub use state_clock::{BEHIND_MIN, StateClock, SteadyClock};
