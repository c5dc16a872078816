//! One transaction: lock, read, run the engine, write, commit, in two round trips at most.
//!
//! # Locks
//!
//! Advisory locks of the transaction, one for each account, on a hash of schema and key. Rows cannot be locked before they
//! are there, and making them first would make a denial write. Two keys of one hash only wait for each other. All are
//! taken in the order of their hashes, so no two transactions wait for each other.
//!
//! The locks are held from the first round trip to the second. If the client stops in between, the server ends its session
//! after 100 ms. Waiting longer than the session's `lock_timeout` is contention: [`Fault::Account`], safe to retry.
//!
//! # Statements
//!
//! 1. `BEGIN`, the locks, the accounts, then the time: sent together, run in this order. In `READ COMMITTED` each sees what
//!    was committed before it began, so the accounts are as the last holder of the locks left them, and the time is
//!    read after them.
//! 2. The changed accounts, the calls that changed them, and `COMMIT`: sent together. If nothing has changed, a `ROLLBACK`
//!    is sent without waiting for its answer: a denial costs one round trip and writes nothing.
//!
//! # Counting once
//!
//! A call that changed something is recorded with the accounts as it found them and the time. If it is resent, the engine
//! runs on those again: the same accounts and the same time give the same answer.

use std::sync::Arc;

use futures_util::future::{join3, join4};
use tokio_postgres::Row;
use tollway_core::{Clock, Fault, Fingerprint, Operation, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::{ANSWER_KEPT, Call};

use crate::error::{at_commit, at_lock, before_commit};
use crate::expiry_rounding::next_minute;
use crate::locked_rows::{LockedRows, stored_key};
use crate::session::Session;
use crate::statements::StoreStatement;

/// Some calls, to be applied together by one writer.
pub(crate) struct Transaction<'a> {
    pub(crate) session: &'a Session,
    pub(crate) schema: &'a str,
    pub(crate) writer: &'a [u8],
    pub(crate) calls: &'a [Arc<Call>],
    /// In place of the server's clock.
    pub(crate) clock: Option<&'a dyn Clock>,
}

/// What came of a transaction.
pub(crate) struct Committed {
    /// One for each call.
    pub(crate) answers: Vec<Result<Outcomes, StoreError>>,
    /// How many accounts were written.
    pub(crate) written: usize,
    /// The store's time.
    pub(crate) now: Timestamp,
    /// The server's time.
    pub(crate) server_now: Timestamp,
}

/// The result of the first round trip.
struct LockedState {
    rows: LockedRows,
    time: Vec<Row>,
}

/// A call to be recorded: tag, sequence, and the accounts as it found them.
type RecordedCall = (Vec<u8>, i64, Vec<u8>);

impl Transaction<'_> {
    /// Applies the calls. An error is that of all of them.
    pub(crate) async fn run(&self) -> Result<Committed, StoreError> {
        let LockedState { mut rows, time } = self.session.within(self.begin(), Retry::Safe).await?;
        let (server_now, forgotten) = self.times(&time)?;
        let now = self.clock.map_or(server_now, Clock::now).max(forgotten);
        let mut kept = Vec::new();
        let answers = self.calls.iter().map(|call| match applied_before(call, &time)? {
            Some((found, at)) => LockedRows::serve_again(call, &found, at),
            None => {
                let served = rows.serve(call, now)?;
                kept.extend(
                    served.found.map(|found| (stored_key(call.tag.account()), signed(call.sequence), found)),
                );
                Ok(served.outcomes)
            }
        });
        let answers = answers.collect();
        let written = self.end(&rows, &kept, now, server_now).await?;
        Ok(Committed { answers, written, now, server_now })
    }

    /// The first round trip.
    async fn begin(&self) -> Result<LockedState, StoreError> {
        let client = self.session.client();
        let operations = self.calls.iter().flat_map(|call| &*call.operations);
        let mut keys: Vec<Vec<u8>> =
            operations.flat_map(Operation::keys).map(|key| stored_key(&key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let locks = locks(self.schema, &keys);
        let tags: Vec<Vec<u8>> = self.calls.iter().map(|call| stored_key(call.tag.account())).collect();
        let first = self.calls.iter().map(|call| signed(call.sequence)).min().unwrap_or(0);
        let (begun, locked, accounts, time) = join4(
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
            client.execute(self.session.statement(StoreStatement::Lock), &[&locks]),
            client.query(self.session.statement(StoreStatement::Read), &[&keys]),
            client.query(self.session.statement(StoreStatement::Time), &[&self.writer, &tags, &first]),
        )
        .await;
        begun.map_err(|error| before_commit(&error))?;
        locked.map_err(|error| at_lock(&error))?;
        let accounts = accounts.map_err(|error| before_commit(&error))?;
        let time = time.map_err(|error| before_commit(&error))?;
        let mut rows = LockedRows::default();
        for row in accounts {
            rows.insert(column(&row, 0)?, column(&row, 1)?);
        }
        Ok(LockedState { rows, time })
    }

    /// The time of the server, and the time up to which accounts were deleted.
    fn times(&self, rows: &[Row]) -> Result<(Timestamp, Timestamp), StoreError> {
        let Some(row) = rows.first() else {
            let message = "the row of the table horizon is gone: it was changed by hand".to_owned();
            return Err(StoreError { fault: Fault::Store, retry: Retry::Useless, message });
        };
        Ok((timestamp(column(row, 0)?), timestamp(column(row, 1)?)))
    }

    /// The second round trip. Returns how many accounts were written.
    async fn end(
        &self,
        rows: &LockedRows,
        kept: &[RecordedCall],
        now: Timestamp,
        server_now: Timestamp,
    ) -> Result<usize, StoreError> {
        let changed = rows.changed()?;
        if changed.is_empty() {
            self.session.rollback_without_waiting();
            return Ok(0);
        }
        let keys: Vec<&[u8]> = changed.iter().map(|account| account.key).collect();
        let accounts: Vec<&[u8]> = changed.iter().map(|account| account.account.as_slice()).collect();
        let expires: Vec<i64> =
            changed.iter().map(|account| signed(next_minute(account.expires).as_micros())).collect();
        let tags: Vec<&[u8]> = kept.iter().map(|(tag, ..)| tag.as_slice()).collect();
        let sequences: Vec<i64> = kept.iter().map(|(_, sequence, _)| *sequence).collect();
        let found: Vec<&[u8]> = kept.iter().map(|(.., found)| found.as_slice()).collect();
        let kept_until = signed(next_minute(server_now.plus(ANSWER_KEPT.into())).as_micros());
        let now = signed(now.as_micros());
        let client = self.session.client();
        let round_trip = async {
            let (written, kept, committed) = join3(
                client.execute(self.session.statement(StoreStatement::Write), &[&keys, &accounts, &expires]),
                client.execute(
                    self.session.statement(StoreStatement::Keep),
                    &[&self.writer, &tags, &sequences, &found, &now, &kept_until],
                ),
                // After a statement that was refused, this is answered as if all were well, and rolls back.
                client.batch_execute("COMMIT"),
            )
            .await;
            written.and(kept).map(|_| ()).and(committed).map_err(|error| at_commit(&error))
        };
        self.session.within(round_trip, Retry::Unclear).await?;
        Ok(changed.len())
    }
}

/// The accounts that this call found when it was applied, and the time; none if it was not applied.
fn applied_before(call: &Call, rows: &[Row]) -> Result<Option<(Vec<u8>, Timestamp)>, StoreError> {
    let tag = stored_key(call.tag.account());
    for row in rows {
        if column::<Option<Vec<u8>>>(row, 2)?.as_ref() != Some(&tag) {
            continue;
        }
        let last: i64 = column(row, 3)?;
        if last == signed(call.sequence) {
            return Ok(Some((column(row, 5)?, timestamp(column(row, 4)?))));
        }
        if last > signed(call.sequence) {
            let message = "a later call of this writer was applied before this one".to_owned();
            return Err(StoreError { fault: Fault::Caller, retry: Retry::Useless, message });
        }
    }
    Ok(None)
}

/// The locks of these keys, in the order in which everybody takes them.
fn locks(schema: &str, keys: &[Vec<u8>]) -> Vec<i64> {
    let lock = |key: &Vec<u8>| {
        let key = String::from_utf8_lossy(key);
        Fingerprint::new().text("tollway line").text(schema).text(&key).finish().cast_signed()
    };
    let mut locks: Vec<i64> = keys.iter().map(lock).collect();
    locks.sort_unstable();
    locks.dedup();
    locks
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| before_commit(&error))
}

fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Timestamps and sequences stay far below the largest `bigint`.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
