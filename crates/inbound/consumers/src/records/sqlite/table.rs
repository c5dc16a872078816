//! Every statement on the tables.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::error::storage;
use crate::consumer_id::ConsumerId;
use crate::record::{Draft, Record, RecordId};
use crate::records::stored::{Stored, micros, read_consumer, time};
use crate::records::{Consumer, PAGE_MAX, RECORDS_PER_CONSUMER_MAX, RecordsError};

/// At least one row, which says whether the consumer is blocked; without records its id is null.
const CONSUMER: &str = "
    SELECT blocked.consumer IS NOT NULL, id, api_name, api_version, bank_id, valid_from, valid_to, per_second,
           per_minute, per_hour, per_day, per_week, per_month, created_at, updated_at
    FROM (SELECT ?1 AS consumer) AS asked
    LEFT JOIN blocked ON blocked.consumer = asked.consumer
    LEFT JOIN records ON records.consumer = asked.consumer
    ORDER BY valid_from, id";

const CONSUMERS: &str = "
    SELECT consumer FROM records WHERE consumer > ?1 UNION SELECT consumer FROM blocked WHERE consumer > ?1
    ORDER BY consumer LIMIT ?2";

const COUNT: &str = "SELECT count(*) FROM records WHERE consumer = ?1";

const CREATE: &str = "
    INSERT INTO records (id, consumer, api_name, api_version, bank_id, valid_from, valid_to, per_second, per_minute,
                         per_hour, per_day, per_week, per_month, created_at, updated_at)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, now, now
    FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 AS now)
    RETURNING created_at, updated_at";

const CHANGE: &str = "
    UPDATE records SET api_name = ?3, api_version = ?4, bank_id = ?5, valid_from = ?6, valid_to = ?7, per_second = ?8,
           per_minute = ?9, per_hour = ?10, per_day = ?11, per_week = ?12, per_month = ?13,
           updated_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    WHERE id = ?1 AND consumer = ?2
    RETURNING created_at, updated_at";

const DELETE: &str = "DELETE FROM records WHERE id = ?1 AND consumer = ?2";

const BLOCK: &str = "
    INSERT INTO blocked (consumer, since) VALUES (?1, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)
    ON CONFLICT (consumer) DO NOTHING";

const UNBLOCK: &str = "DELETE FROM blocked WHERE consumer = ?1";

pub(super) fn consumer(connection: &Connection, consumer: &ConsumerId) -> Result<Consumer, RecordsError> {
    let mut found = Consumer::default();
    let mut statement = connection.prepare_cached(CONSUMER).map_err(|error| storage(&error))?;
    let mut rows = statement.query([consumer.as_str()]).map_err(|error| storage(&error))?;
    while let Some(row) = rows.next().map_err(|error| storage(&error))? {
        found.blocked = row.get(0).map_err(|error| storage(&error))?;
        if let Some(stored) = stored(row, consumer).map_err(|error| storage(&error))? {
            found.records.push(stored.into_record()?);
        }
    }
    Ok(found)
}

fn stored(row: &Row<'_>, consumer: &ConsumerId) -> rusqlite::Result<Option<Stored>> {
    let Some(id) = row.get(1)? else { return Ok(None) };
    let mut amounts = [0; 6];
    for (column, amount) in (7..).zip(&mut amounts) {
        *amount = row.get(column)?;
    }
    Ok(Some(Stored {
        id,
        consumer: consumer.as_str().to_owned(),
        api_name: row.get(2)?,
        api_version: row.get(3)?,
        bank_id: row.get(4)?,
        valid_from: row.get(5)?,
        valid_to: row.get(6)?,
        amounts,
        created_at: row.get(13)?,
        updated_at: row.get(14)?,
    }))
}

pub(super) fn consumers(
    connection: &Connection,
    after: Option<&ConsumerId>,
    limit: usize,
) -> Result<Vec<ConsumerId>, RecordsError> {
    let mut statement = connection.prepare_cached(CONSUMERS).map_err(|error| storage(&error))?;
    // Ids are not empty, so all of them sort after the empty string.
    let after = after.map_or("", ConsumerId::as_str);
    let limit = i64::try_from(limit.min(PAGE_MAX)).unwrap_or(0);
    let mut rows = statement.query(params![after, limit]).map_err(|error| storage(&error))?;
    let mut consumers = Vec::new();
    while let Some(row) = rows.next().map_err(|error| storage(&error))? {
        let consumer: String = row.get(0).map_err(|error| storage(&error))?;
        consumers.push(read_consumer(&consumer)?);
    }
    Ok(consumers)
}

pub(super) fn create(connection: &mut Connection, draft: Draft) -> Result<Record, RecordsError> {
    let transaction = begin(connection)?;
    let count: i64 = transaction
        .query_row(COUNT, [draft.consumer.as_str()], |row| row.get(0))
        .map_err(|error| storage(&error))?;
    if usize::try_from(count).is_ok_and(|count| count >= RECORDS_PER_CONSUMER_MAX) {
        return Err(RecordsError::too_many(&draft.consumer, RECORDS_PER_CONSUMER_MAX));
    }
    let id = RecordId::draw();
    let times = write(&transaction, CREATE, id, &draft)?;
    transaction.commit().map_err(|error| storage(&error))?;
    // An insert always returns its row.
    record(id, draft, times.unwrap_or_default())
}

pub(super) fn change(
    connection: &mut Connection,
    id: RecordId,
    draft: Draft,
) -> Result<Record, RecordsError> {
    let transaction = begin(connection)?;
    let Some(times) = write(&transaction, CHANGE, id, &draft)? else {
        return Err(RecordsError::not_found(&draft.consumer, id));
    };
    transaction.commit().map_err(|error| storage(&error))?;
    record(id, draft, times)
}

pub(super) fn delete(
    connection: &mut Connection,
    consumer: &ConsumerId,
    id: RecordId,
) -> Result<(), RecordsError> {
    let deleted = connection.execute(DELETE, params![id.to_string(), consumer.as_str()]);
    match deleted.map_err(|error| storage(&error))? {
        0 => Err(RecordsError::not_found(consumer, id)),
        _ => Ok(()),
    }
}

pub(super) fn set_blocked(
    connection: &mut Connection,
    consumer: &ConsumerId,
    blocked: bool,
) -> Result<(), RecordsError> {
    let statement = if blocked { BLOCK } else { UNBLOCK };
    connection.execute(statement, [consumer.as_str()]).map_err(|error| storage(&error))?;
    Ok(())
}

/// Takes the write lock at once: a transaction that reads first may find that another one has written since.
fn begin(connection: &mut Connection) -> Result<Transaction<'_>, RecordsError> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|error| storage(&error))
}

/// Writes a record; returns when it was created and changed, if it exists.
fn write(
    transaction: &Transaction<'_>,
    statement: &str,
    id: RecordId,
    draft: &Draft,
) -> Result<Option<(i64, i64)>, RecordsError> {
    let Draft { consumer, scope, validity, amounts } = draft;
    let [second, minute, hour, day, week, month] = amounts.all();
    let (from, to) = (micros(validity.from()), micros(validity.to()));
    let values = params![
        id.to_string(),
        consumer.as_str(),
        scope.api_name(),
        scope.api_version(),
        scope.bank_id(),
        from,
        to,
        second,
        minute,
        hour,
        day,
        week,
        month
    ];
    let times = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let written = transaction.query_row(statement, values, times).optional();
    written.map_err(|error| storage(&error))
}

fn record(id: RecordId, draft: Draft, times: (i64, i64)) -> Result<Record, RecordsError> {
    let (created_at, updated_at) = (time("created_at", times.0)?, time("updated_at", times.1)?);
    Ok(Record { id, draft, created_at, updated_at })
}
