//! The counts of past minutes and hours.

use tollway_core::Timestamp;

use super::error::Failure;
use super::read;
use super::session::Session;
use crate::engine::samples::{HOUR_MICROS, forgotten_before, minute_of};
use crate::engine::stored::{micros, time};
use crate::{EngineError, Sample};

pub(super) async fn record(session: &Session, now: Timestamp) -> Result<(), Failure> {
    let stages = serde_json::to_string(&read::counts(session).await?)
        .map_err(|error| EngineError::caller(error.to_string()))?;
    let client = session.client();
    let insert = "INSERT INTO samples (at, stages) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&minute_of(now), &stages]).await?;
    let [all, minutes] = forgotten_before(now);
    let forget = "DELETE FROM samples WHERE at < $1 OR at < $2 AND at % $3 <> 0";
    client.execute(forget, &[&all, &minutes, &HOUR_MICROS]).await?;
    Ok(())
}

pub(super) async fn samples(session: &Session, since: Timestamp) -> Result<Vec<Sample>, Failure> {
    let select = "SELECT at, stages FROM samples WHERE at >= $1 ORDER BY at";
    let mut samples = Vec::new();
    for row in session.client().query(select, &[&micros(since)]).await? {
        // A sample that a newer version wrote otherwise is left out.
        if let Ok(stages) = serde_json::from_str(row.try_get(1)?) {
            samples.push(Sample { at: time(row.try_get(0)?), stages });
        }
    }
    Ok(samples)
}
