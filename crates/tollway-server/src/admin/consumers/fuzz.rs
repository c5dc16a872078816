//! The way of the fuzz targets to records.

use tollway_consumers::{ConsumerId, Draft};

use super::record::RecordBody;

/// Reads a record as it is sent, or says what is wrong with it.
pub fn record(body: &[u8]) -> Result<Draft, String> {
    let consumer = ConsumerId::new("c").map_err(|error| error.to_string())?;
    RecordBody::draft(body, consumer).map_err(|problem| problem.detail().to_owned())
}
