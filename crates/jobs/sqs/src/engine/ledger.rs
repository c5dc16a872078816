//! The ledger: which items there are, and how they are written.
//!
//! | partition | place | item |
//! |---|---|---|
//! | `jobs/QUEUE` | id | a job: [`LedgerRecord`], with its version |
//! | `keys/QUEUE` + key | `key` | the id of the job with this key |
//! | `group/GROUP` | stage and id | a job of the group that has not left its stage |
//! | `dead/QUEUE` | id | a dead letter, so that they are listed without reading every job |
//! | `stages` | stage | settings of a stage, and its queue |
//! | `counters` | stage | counts |
//! | `samples` | minute | counts of that minute |
//! | `workers` | `=` + name | the process that works under the name of a worker |
//! | `ids` | `next` | the last id that was given out |

use serde_json::{from_str, to_string};
use tollway_core::{Retry, Timestamp};
use tollway_pipeline::{EngineError, JobId};

use super::error::storage;
use super::record::LedgerRecord;
use super::table::{
    Guard, Item, Key, PARENT, PART, SORT, TTL, Table, VERSION, Write, number, read_number, read_text, text,
};

/// The largest data that the ledger keeps: an item of DynamoDB has at most 400 KB, evidence and result included.
pub(super) const DATA_BYTES_MAX: usize = 200 << 10;

/// The largest result of a job, for the same reason.
pub(super) const RESULT_BYTES_MAX: usize = 64 << 10;

/// How long a done job outlives its retention: DynamoDB deletes what the pipeline did not purge.
const TTL_BEYOND_SECONDS: u64 = 2 * 24 * 3_600;

const DOCUMENT: &str = "doc";
const DATA: &str = "data";
const STATE: &str = "state";
pub(super) const ID: &str = "id";

/// A record, and how often it was written.
#[derive(Clone, Debug)]
pub(super) struct Versioned {
    pub(super) record: LedgerRecord,
    pub(super) version: u64,
}

pub(super) fn sort_of(id: JobId) -> String {
    format!("{:020}", id.get())
}

pub(super) fn job_key(queue: &str, id: JobId) -> Key {
    (jobs_part(queue), sort_of(id))
}

pub(super) fn jobs_part(queue: &str) -> String {
    format!("jobs/{queue}")
}

pub(super) fn dead_part(queue: &str) -> String {
    format!("dead/{queue}")
}

/// Where the id of a key is. A queue has no `/` in its name, a partition at most 2,048 bytes, a place 1,024.
pub(super) fn key_key(queue: &str, key: &str) -> Key {
    let (part, rest) = key.split_at(key.floor_char_boundary(1_100));
    (format!("keys/{queue}/{part}"), format!("={rest}"))
}

/// The write of a record that was seen in this version; 0: it must not be there.
pub(super) fn put_record(
    queue: &str,
    record: &LedgerRecord,
    seen: u64,
    expires: Option<Timestamp>,
) -> Result<Write, EngineError> {
    let guard = if seen == 0 { Guard::Absent } else { Guard::Version(seen) };
    Ok(Write::Put(item_of(queue, record, seen + 1, expires)?, guard))
}

pub(super) fn item_of(
    queue: &str,
    record: &LedgerRecord,
    version: u64,
    expires: Option<Timestamp>,
) -> Result<Item, EngineError> {
    let (part, sort) = job_key(queue, record.job.id);
    let mut document = record.clone();
    let data = std::mem::take(&mut document.job.data);
    let document = to_string(&document).map_err(|error| storage(Retry::Useless, error.to_string()))?;
    let mut item = Item::from([
        (PART.to_owned(), text(&part)),
        (SORT.to_owned(), text(&sort)),
        (VERSION.to_owned(), number(version)),
        (STATE.to_owned(), text(record.job.state.as_str())),
        (DOCUMENT.to_owned(), text(&document)),
        (DATA.to_owned(), text(if record.data_in_message { "null" } else { &data })),
    ]);
    if let Some(parent) = record.parent {
        item.insert(PARENT.to_owned(), number(parent.get()));
    }
    if let Some(expires) = expires.filter(|_| record.job.state.has_left()) {
        item.insert(TTL.to_owned(), number(expires.as_millis() / 1_000 + TTL_BEYOND_SECONDS));
    }
    Ok(item)
}

pub(super) fn read_record(item: &Item) -> Result<Versioned, EngineError> {
    let unreadable = |why: &str| {
        let place = read_text(item, SORT).unwrap_or_default();
        storage(Retry::Useless, format!("the ledger's item {place} cannot be read: {why}"))
    };
    let document = read_text(item, DOCUMENT).ok_or_else(|| unreadable("it has no document"))?;
    let mut record: LedgerRecord = from_str(document).map_err(|error| unreadable(&error.to_string()))?;
    read_text(item, DATA).unwrap_or("null").clone_into(&mut record.job.data);
    let version = read_number(item, VERSION).ok_or_else(|| unreadable("it has no version"))?;
    Ok(Versioned { record, version })
}

/// The write that gives a key to a job.
pub(super) fn put_key(queue: &str, key: &str, id: JobId, guard: Guard) -> Write {
    let (part, sort) = key_key(queue, key);
    let mut item = Item::from([
        (PART.to_owned(), text(&part)),
        (SORT.to_owned(), text(&sort)),
        (ID.to_owned(), number(id.get())),
    ]);
    if let Guard::AbsentOrOf(parent) = guard {
        item.insert(PARENT.to_owned(), number(parent));
    }
    Write::Put(item, guard)
}

pub(super) fn put_dead(queue: &str, id: JobId) -> Write {
    let item =
        Item::from([(PART.to_owned(), text(&dead_part(queue))), (SORT.to_owned(), text(&sort_of(id)))]);
    Write::Put(item, Guard::Any)
}

pub(super) fn delete_dead(queue: &str, id: JobId) -> Write {
    Write::Delete((dead_part(queue), sort_of(id)), Guard::Any)
}

pub(super) fn read_id(item: &Item) -> Option<JobId> {
    read_number(item, ID).map(JobId::new)
}

impl Table {
    pub(super) async fn record(&self, queue: &str, id: JobId) -> Result<Option<Versioned>, EngineError> {
        self.get(&job_key(queue, id)).await?.as_ref().map(read_record).transpose()
    }
}
