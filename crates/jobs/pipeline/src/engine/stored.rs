//! Times, numbers and names as SQL databases store them.

use tollway_core::{Name, Timestamp};

use super::error::EngineError;

/// A stored name.
pub fn name(text: &str) -> Result<Name, EngineError> {
    Name::new(text).map_err(|error| EngineError::caller(format!("stage {text:?}: {error}")))
}

/// As times are stored. The last timestamp fits.
pub fn micros(time: Timestamp) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A stored time.
pub fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// As ids and claim numbers are stored. A larger one belongs to no job.
pub fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(-1)
}
