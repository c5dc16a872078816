//! Times, numbers and names as SQL databases store them.

use tollway_core::{Name, Timestamp};

use super::error::EngineError;
use crate::{Change, State};

/// A stored name.
pub fn name(text: &str) -> Result<Name, EngineError> {
    Name::new(text).map_err(|error| EngineError::caller(format!("stage {text:?}: {error}")))
}

/// As times are stored. The last timestamp fits.
pub fn micros(time: Timestamp) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The states that a change applies to, as a condition of SQL. A single state is an equation, for partial indexes.
pub fn states_of(change: Change) -> String {
    let applies = State::ALL.into_iter().filter(|state| change.applies_to(*state));
    let states: Vec<String> = applies.map(|state| state.number().to_string()).collect();
    match &states[..] {
        [one] => format!("jobs.state = {one}"),
        several => format!("jobs.state IN ({})", several.join(", ")),
    }
}

/// A stored time.
pub fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// As ids and claim numbers are stored. A larger one belongs to no job.
pub fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(-1)
}
