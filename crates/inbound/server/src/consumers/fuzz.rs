//! Entry points of the fuzz targets for records.

use tollway_consumers::{ConsumerId, Draft};

use super::documented::Documented;
use super::management_json::ManagementJson;
use super::neutral::Neutral;

/// Parses the body of a record in the documented JSON.
pub fn record(body: &[u8]) -> Result<Draft, String> {
    parse::<Documented>(body)
}

/// Parses the body of a record in the neutral JSON.
pub fn neutral_record(body: &[u8]) -> Result<Draft, String> {
    parse::<Neutral>(body)
}

fn parse<S: ManagementJson>(body: &[u8]) -> Result<Draft, String> {
    let consumer = ConsumerId::new("c").map_err(|error| error.to_string())?;
    S::draft(body, consumer).map_err(|problem| problem.detail().to_owned())
}
