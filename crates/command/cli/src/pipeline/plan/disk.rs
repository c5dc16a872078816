//! How much the jobs of a backlog store.

use tollway_pipeline::EngineUrl;

use super::super::free_space;
use super::work::{Observed, Work};

/// The data of a job, if there are no jobs to measure.
const DATA_ASSUMED: u64 = 1_024;

/// What SQLite stores beside the data of a job that has passed: rows, indexes, keys of 45 bytes and groups. Measured with 100,000
/// jobs of 1 KiB, done in two stages: 1,630 bytes each in all.
const SQLITE_BESIDE: u64 = 610;

/// The same in Postgres, which keeps some versions of a row, with its data, until they are vacuumed. Measured with the same jobs
/// before any vacuum: 4,500 bytes each in all.
const POSTGRES_BESIDE: u64 = 1_430;
const POSTGRES_VERSIONS: u64 = 3;

/// The same in the ledger of an engine on SQS: names and values of its two items, without DynamoDB's own 100 bytes an item.
const LEDGER_BESIDE: u64 = 1_100;

/// The disk that is needed.
pub(super) struct Disk {
    pub(super) jobs: u64,
    pub(super) bytes_per_job: u64,
    /// The data of a job.
    pub(super) data: u64,
    /// As the jobs have that are there.
    pub(super) measured: bool,
    /// What is free where the file is.
    pub(super) free: Option<u64>,
}

impl Disk {
    pub(super) fn new(engine: &EngineUrl, work: &Work, observed: &Observed) -> Self {
        let data = observed.data_bytes.unwrap_or(DATA_ASSUMED);
        let bytes_per_job = match engine {
            EngineUrl::Sqlite(_) => data + SQLITE_BESIDE,
            EngineUrl::Postgres(_) => data * POSTGRES_VERSIONS + POSTGRES_BESIDE,
            EngineUrl::Sqs(_) => data + LEDGER_BESIDE,
        };
        Self {
            jobs: work.stages.iter().map(|stage| stage.jobs).sum(),
            bytes_per_job,
            data,
            measured: observed.data_bytes.is_some(),
            free: free(engine),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.jobs.saturating_mul(self.bytes_per_job)
    }

    pub(super) fn is_enough(&self) -> bool {
        self.free.is_none_or(|free| free >= self.bytes())
    }
}

fn free(engine: &EngineUrl) -> Option<u64> {
    let EngineUrl::Sqlite(file) = engine else { return None };
    free_space::beside(file)
}
