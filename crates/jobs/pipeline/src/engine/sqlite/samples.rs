//! The counts of past minutes and hours.

use rusqlite::{Connection, params};
use tollway_core::Timestamp;

use super::error::Failure;
use super::read;
use super::rows::{micros, time};
use super::session::Session;
use crate::engine::samples::{HOUR_MICROS, forgotten_before, minute_of};
use crate::{EngineError, Sample};

pub(super) fn record(session: &mut Session<'_>, now: Timestamp) -> Result<(), Failure> {
    // The counters of this transaction are written at its end: a sample may lack what is in its own batch.
    let connection = session.connection;
    let stages = serde_json::to_string(&read::counts(connection)?)
        .map_err(|error| EngineError::caller(error.to_string()))?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO samples (at, stages) VALUES (?1, ?2)")?
        .execute(params![minute_of(now), stages])?;
    let [all, minutes] = forgotten_before(now);
    connection
        .prepare_cached("DELETE FROM samples WHERE at < ?1 OR at < ?2 AND at % ?3 <> 0")?
        .execute(params![all, minutes, HOUR_MICROS])?;
    Ok(())
}

pub(super) fn samples(connection: &Connection, since: Timestamp) -> Result<Vec<Sample>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT at, stages FROM samples WHERE at >= ?1 ORDER BY at")?;
    let mut rows = statement.query([micros(since)])?;
    let mut samples = Vec::new();
    while let Some(row) = rows.next()? {
        // A sample that a newer version wrote otherwise is left out.
        if let Ok(stages) = serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?) {
            samples.push(Sample { at: time(row.get(0)?), stages });
        }
    }
    Ok(samples)
}
