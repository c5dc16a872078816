//! Storage of records, and the contract of an implementation.

mod changes;
mod error;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod stored;

use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

pub use error::{RecordsError, RecordsFault};
pub use open::open_records;
#[cfg(feature = "postgres")]
pub use postgres::PostgresRecords;
pub use sqlite::SqliteRecords;

use crate::consumer_id::ConsumerId;
use crate::record::{Draft, Record, RecordId};

/// The most records of one consumer: all of them are read and added up together, and the ids of all are cached.
pub const RECORDS_PER_CONSUMER_MAX: usize = 128;

/// The most consumers on one page.
pub const PAGE_MAX: usize = 1_000;

/// Everything stored about one consumer, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// Its records, ordered by their start, then by id.
    pub records: Vec<Record>,
    /// Whether it is blocked.
    pub blocked: bool,
}

impl Consumer {
    /// Whether anything is stored about it.
    pub fn is_known(&self) -> bool {
        self.blocked || !self.records.is_empty()
    }

    /// One of its records.
    pub fn record(&self, id: RecordId) -> Option<&Record> {
        self.records.iter().find(|record| record.id == id)
    }
}

/// The state of changes by all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Increases with every change. One increment may cover several changes, or none.
    pub number: u64,
    /// Whether changes by other processes are followed. While they are not, every earlier read may be stale.
    pub followed: bool,
}

/// A future response about records. It owns its data, and runs on any executor.
pub type RecordsAnswer<T> = Pin<Box<dyn Future<Output = Result<T, RecordsError>> + Send>>;

/// Storage of records.
///
/// # Contract
///
/// A change is durable before the response: it survives any crash afterwards. A rejected change has no effect. Dropping the
/// future does not leave a change half done.
///
/// # Other processes
///
/// Several processes may share the same storage. [`changes`](Self::changes) moves on every change by any of them: before the
/// response for a local change, and as soon as possible for a remote one.
pub trait Records: Send + Sync {
    /// Everything stored about a consumer; empty if it is unknown.
    fn consumer(&self, consumer: &ConsumerId) -> RecordsAnswer<Consumer>;

    /// Known consumers in byte order, after this one, at most `limit` and never more than [`PAGE_MAX`].
    fn consumers(&self, after: Option<&ConsumerId>, limit: usize) -> RecordsAnswer<Vec<ConsumerId>>;

    /// Creates a record: at most [`RECORDS_PER_CONSUMER_MAX`] per consumer.
    fn create(&self, draft: Draft) -> RecordsAnswer<Record>;

    /// Changes a record. Its consumer stays: the record of another consumer is not found.
    fn change(&self, id: RecordId, draft: Draft) -> RecordsAnswer<Record>;

    /// Removes a record of this consumer.
    fn delete(&self, consumer: &ConsumerId, id: RecordId) -> RecordsAnswer<()>;

    /// Blocks or unblocks a consumer.
    fn set_blocked(&self, consumer: &ConsumerId, blocked: bool) -> RecordsAnswer<()>;

    /// Notifies of changes by any process.
    fn changes(&self) -> watch::Receiver<Generation>;
}
