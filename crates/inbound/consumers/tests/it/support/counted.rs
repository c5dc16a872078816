//! Records that count reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;
use tollway_consumers::{
    Consumer, ConsumerId, Draft, Generation, Record, RecordId, Records, RecordsAnswer, RecordsError,
    RecordsFault, SqliteRecords,
};
use tollway_core::Retry;

/// Real records that count reads, and that can be made unreachable.
pub(crate) struct Counted {
    records: Arc<SqliteRecords>,
    reads: AtomicUsize,
    cut_off: AtomicBool,
    /// Replaces the records' own notifications, so that a test can send them.
    changes: Option<watch::Sender<Generation>>,
}

impl Counted {
    pub(crate) fn new(changes: Option<watch::Sender<Generation>>) -> Arc<Self> {
        Self::over(Arc::new(SqliteRecords::open("sqlite::memory:").unwrap()), changes)
    }

    /// Wraps records that other handles share.
    pub(crate) fn over(records: Arc<SqliteRecords>, changes: Option<watch::Sender<Generation>>) -> Arc<Self> {
        let (reads, cut_off) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { records, reads, cut_off, changes })
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::SeqCst);
    }
}

impl Records for Counted {
    fn consumer(&self, consumer: &ConsumerId) -> RecordsAnswer<Consumer> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.cut_off.load(Ordering::SeqCst) {
            let message = "cut off".to_owned();
            let error = RecordsError { fault: RecordsFault::Network, retry: Retry::Safe, message };
            return Box::pin(async { Err(error) });
        }
        self.records.consumer(consumer)
    }

    fn consumers(&self, after: Option<&ConsumerId>, limit: usize) -> RecordsAnswer<Vec<ConsumerId>> {
        self.records.consumers(after, limit)
    }

    fn create(&self, draft: Draft) -> RecordsAnswer<Record> {
        self.records.create(draft)
    }

    fn change(&self, id: RecordId, draft: Draft) -> RecordsAnswer<Record> {
        self.records.change(id, draft)
    }

    fn delete(&self, consumer: &ConsumerId, id: RecordId) -> RecordsAnswer<()> {
        self.records.delete(consumer, id)
    }

    fn set_blocked(&self, consumer: &ConsumerId, blocked: bool) -> RecordsAnswer<()> {
        self.records.set_blocked(consumer, blocked)
    }

    fn changes(&self) -> watch::Receiver<Generation> {
        self.changes.as_ref().map_or_else(|| self.records.changes(), watch::Sender::subscribe)
    }
}
