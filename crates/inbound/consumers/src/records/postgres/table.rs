//! Every statement on the tables. Names resolve in the session's schema. Each statement is its own transaction.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tollway_core::Retry;

use super::error::failed;
use super::session::Session;
use crate::consumer_id::ConsumerId;
use crate::record::{Draft, Record, RecordId};
use crate::records::stored::{Stored, micros, read_consumer, time};
use crate::records::{Consumer, PAGE_MAX, RECORDS_PER_CONSUMER_MAX, RecordsError};

/// Which statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordStatement {
    Consumer,
    Consumers,
    Create,
    Change,
    Delete,
    Block,
    Unblock,
}

/// In the order of [`RecordStatement`].
pub(super) const STATEMENTS: [&str; 7] = [CONSUMER, CONSUMERS, CREATE, CHANGE, DELETE, BLOCK, UNBLOCK];

/// At least one row, which says whether the consumer is blocked; without records its id is null.
const CONSUMER: &str = r#"
    SELECT blocked.consumer IS NOT NULL, id, api_name, api_version, bank_id, valid_from, valid_to, per_second,
           per_minute, per_hour, per_day, per_week, per_month, created_at, updated_at
    FROM (SELECT $1::text COLLATE "C" AS consumer) AS asked
    LEFT JOIN consumer_blocked AS blocked ON blocked.consumer = asked.consumer
    LEFT JOIN consumer_records AS records ON records.consumer = asked.consumer
    ORDER BY valid_from, id"#;

const CONSUMERS: &str = "
    SELECT consumer FROM consumer_records WHERE consumer > $1
    UNION SELECT consumer FROM consumer_blocked WHERE consumer > $1 ORDER BY consumer LIMIT $2";

/// Returns no row at the record limit. Processes that insert for the same consumer at once do not see each other and may
/// exceed it; the limit only bounds memory.
const CREATE: &str = "
    INSERT INTO consumer_records (id, consumer, api_name, api_version, bank_id, valid_from, valid_to, per_second,
                                  per_minute, per_hour, per_day, per_week, per_month, created_at, updated_at)
    SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::bigint, $8::bigint, $9::bigint,
           $10::bigint, $11::bigint, $12::bigint, $13::bigint, now, now
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 1000 AS now) AS clock
    WHERE (SELECT count(*) FROM consumer_records WHERE consumer = $2) < $14::bigint
    RETURNING created_at, updated_at";

const CHANGE: &str = "
    UPDATE consumer_records SET api_name = $3, api_version = $4, bank_id = $5, valid_from = $6, valid_to = $7,
           per_second = $8, per_minute = $9, per_hour = $10, per_day = $11, per_week = $12, per_month = $13,
           updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 1000
    WHERE id = $1 AND consumer = $2
    RETURNING created_at, updated_at";

const DELETE: &str = "DELETE FROM consumer_records WHERE id = $1 AND consumer = $2";

const BLOCK: &str = "
    INSERT INTO consumer_blocked (consumer, since)
    VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 1000)
    ON CONFLICT (consumer) DO NOTHING";

const UNBLOCK: &str = "DELETE FROM consumer_blocked WHERE consumer = $1";

pub(super) async fn consumer(session: &Session, consumer: &ConsumerId) -> Result<Consumer, RecordsError> {
    let mut found = Consumer::default();
    for row in query(session, RecordStatement::Consumer, &[&consumer.as_str()]).await? {
        let read = || Ok((row.try_get(0)?, stored(&row, consumer)?));
        let (blocked, stored) = read().map_err(|error| failed(&error, Retry::Useless))?;
        found.blocked = blocked;
        if let Some(stored) = stored {
            found.records.push(stored.into_record()?);
        }
    }
    Ok(found)
}

fn stored(row: &Row, consumer: &ConsumerId) -> Result<Option<Stored>, tokio_postgres::Error> {
    let Some(id) = row.try_get(1)? else { return Ok(None) };
    let mut amounts = [0; 6];
    for (column, amount) in (7..).zip(&mut amounts) {
        *amount = row.try_get::<usize, i64>(column)?;
    }
    Ok(Some(Stored {
        id,
        consumer: consumer.as_str().to_owned(),
        api_name: row.try_get(2)?,
        api_version: row.try_get(3)?,
        bank_id: row.try_get(4)?,
        valid_from: row.try_get(5)?,
        valid_to: row.try_get(6)?,
        amounts,
        created_at: row.try_get(13)?,
        updated_at: row.try_get(14)?,
    }))
}

pub(super) async fn consumers(
    session: &Session,
    after: Option<&ConsumerId>,
    limit: usize,
) -> Result<Vec<ConsumerId>, RecordsError> {
    // Ids are not empty, so all of them sort after the empty string.
    let after = after.map_or("", ConsumerId::as_str);
    let limit = i64::try_from(limit.min(PAGE_MAX)).unwrap_or(0);
    let rows = query(session, RecordStatement::Consumers, &[&after, &limit]).await?;
    let read = |row: &Row| {
        let consumer: &str = row.try_get(0).map_err(|error| failed(&error, Retry::Useless))?;
        read_consumer(consumer)
    };
    rows.iter().map(read).collect()
}

pub(super) async fn create(session: &Session, draft: Draft) -> Result<Record, RecordsError> {
    let id = RecordId::draw();
    let most = i64::try_from(RECORDS_PER_CONSUMER_MAX).unwrap_or(i64::MAX);
    match write(session, RecordStatement::Create, id, &draft, &[&most]).await? {
        Some(times) => record(id, draft, times),
        None => Err(RecordsError::too_many(&draft.consumer, RECORDS_PER_CONSUMER_MAX)),
    }
}

pub(super) async fn change(session: &Session, id: RecordId, draft: Draft) -> Result<Record, RecordsError> {
    match write(session, RecordStatement::Change, id, &draft, &[]).await? {
        Some(times) => record(id, draft, times),
        None => Err(RecordsError::not_found(&draft.consumer, id)),
    }
}

pub(super) async fn delete(
    session: &Session,
    consumer: &ConsumerId,
    id: RecordId,
) -> Result<(), RecordsError> {
    match execute(session, RecordStatement::Delete, &[&id.to_string(), &consumer.as_str()]).await? {
        0 => Err(RecordsError::not_found(consumer, id)),
        _ => Ok(()),
    }
}

pub(super) async fn set_blocked(
    session: &Session,
    consumer: &ConsumerId,
    blocked: bool,
) -> Result<(), RecordsError> {
    let index = if blocked { RecordStatement::Block } else { RecordStatement::Unblock };
    execute(session, index, &[&consumer.as_str()]).await?;
    Ok(())
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

async fn query(
    session: &Session,
    index: RecordStatement,
    values: Values<'_>,
) -> Result<Vec<Row>, RecordsError> {
    session.within(session.client().query(session.statement(index), values), Retry::Safe).await
}

async fn execute(session: &Session, index: RecordStatement, values: Values<'_>) -> Result<u64, RecordsError> {
    session.within(session.client().execute(session.statement(index), values), Retry::Unclear).await
}

/// Writes a record; returns when it was created and changed, if it exists.
async fn write(
    session: &Session,
    index: RecordStatement,
    id: RecordId,
    draft: &Draft,
    more: Values<'_>,
) -> Result<Option<(i64, i64)>, RecordsError> {
    let Draft { consumer, scope, validity, amounts } = draft;
    let (id, text) = (id.to_string(), consumer.as_str());
    let (name, version, bank) = (scope.api_name(), scope.api_version(), scope.bank_id());
    let (from, to) = (micros(validity.from()), micros(validity.to()));
    let amounts = amounts.all();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&id, &text, &name, &version, &bank, &from, &to];
    values.extend(amounts.iter().map(|amount| amount as &(dyn ToSql + Sync)));
    values.extend(more);
    let written = session.client().query_opt(session.statement(index), &values);
    let Some(row) = session.within(written, Retry::Unclear).await? else { return Ok(None) };
    let times = || Ok((row.try_get(0)?, row.try_get(1)?));
    times().map(Some).map_err(|error| failed(&error, Retry::Unclear))
}

fn record(id: RecordId, draft: Draft, times: (i64, i64)) -> Result<Record, RecordsError> {
    let (created_at, updated_at) = (time("created_at", times.0)?, time("updated_at", times.1)?);
    Ok(Record { id, draft, created_at, updated_at })
}
