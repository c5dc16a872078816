//! Where records are kept, and the duties of an implementation.

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

/// All that is kept of one consumer, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// Its records, by where they begin, then by id.
    pub records: Vec<Record>,
    /// Whether it may not call at all.
    pub blocked: bool,
}

impl Consumer {
    /// Whether anything is kept of it.
    pub fn is_known(&self) -> bool {
        self.blocked || !self.records.is_empty()
    }

    /// One of its records.
    pub fn record(&self, id: RecordId) -> Option<&Record> {
        self.records.iter().find(|record| record.id == id)
    }
}

/// How far the changes of all have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Moves on with every change. One move may stand for several changes, and now and then for none.
    pub number: u64,
    /// Whether changes by others are being followed. While they are not, nothing read earlier can be trusted.
    pub followed: bool,
}

/// An answer about records, later. It owns all it needs, and any executor can wait for it.
pub type RecordsAnswer<T> = Pin<Box<dyn Future<Output = Result<T, RecordsError>> + Send>>;

/// Where records are kept.
///
/// # Duties
///
/// A change is kept before it is answered: whatever is killed afterwards, it is there. A change that is refused has
/// changed nothing. Dropping an answer does not tear a change apart.
///
/// # Others
///
/// Several processes may keep records in the same place. [`changes`](Self::changes) moves whenever one of them has
/// changed anything: before the answer for changes made here, and as soon as it can be known for those of others.
pub trait Records: Send + Sync {
    /// All that is kept of a consumer; empty if it is unknown.
    fn consumer(&self, consumer: &ConsumerId) -> RecordsAnswer<Consumer>;

    /// Consumers of which something is kept, in the order of their bytes, after this one and at most so many
    /// ([`PAGE_MAX`] whatever is asked).
    fn consumers(&self, after: Option<&ConsumerId>, limit: usize) -> RecordsAnswer<Vec<ConsumerId>>;

    /// Makes a record. At most [`RECORDS_PER_CONSUMER_MAX`] of a consumer, no two of the same scope that are
    /// valid at the same time.
    fn create(&self, draft: Draft) -> RecordsAnswer<Record>;

    /// Makes a record say something else. Its consumer stays: a record of another consumer is not found.
    fn change(&self, id: RecordId, draft: Draft) -> RecordsAnswer<Record>;

    /// Removes a record of this consumer.
    fn delete(&self, consumer: &ConsumerId, id: RecordId) -> RecordsAnswer<()>;

    /// Blocks a consumer, or no longer.
    fn set_blocked(&self, consumer: &ConsumerId, blocked: bool) -> RecordsAnswer<()>;

    /// Tells of changes by anybody.
    fn changes(&self) -> watch::Receiver<Generation>;
}
