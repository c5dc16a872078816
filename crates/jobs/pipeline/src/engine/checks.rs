//! What every engine checks before it stores anything.

use tollway_core::Name;

use super::error::EngineError;
use super::{Conclusion, EngineAnswer};
use crate::bounds::{BATCH_BYTES_MAX, KEY_BYTES_MAX, OUTPUTS_MAX};
pub use crate::job::check_data;

/// An answer without the engine.
pub(crate) fn refuse<T: Send + 'static>(error: EngineError) -> EngineAnswer<T> {
    Box::pin(std::future::ready(Err(error)))
}

/// Checks the stages of a move.
pub(crate) fn check_stages(from: &Name, to: &Name) -> Result<(), EngineError> {
    match from == to {
        false => Ok(()),
        true => Err(EngineError::caller(format!("the jobs are in stage {} already", from.as_str()))),
    }
}

/// Checks a bound of a call.
pub fn within(what: &str, found: usize, max: usize) -> Result<(), EngineError> {
    match found <= max {
        true => Ok(()),
        false => Err(EngineError::caller(format!("{found} {what} in one call, more than the {max} allowed"))),
    }
}

/// Checks a conclusion.
pub(crate) fn check(conclusion: &Conclusion) -> Result<(), EngineError> {
    let Conclusion::Done { outputs, result } = conclusion else { return Ok(()) };
    within("outputs", outputs.len(), OUTPUTS_MAX)?;
    if let Some(result) = result {
        check_data(result)?;
    }
    within("bytes", conclusion.bytes(), BATCH_BYTES_MAX)
}

/// Checks the key of an output: every stage makes it longer.
pub fn check_output_key(key: &str, index: usize) -> Result<(), EngineError> {
    match key.len() {
        0..=KEY_BYTES_MAX => Ok(()),
        bytes => {
            let message = format!("the key of output {index} has {bytes} bytes, more than {KEY_BYTES_MAX}");
            Err(EngineError::caller(message))
        }
    }
}
