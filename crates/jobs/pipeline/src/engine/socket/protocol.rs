//! What is said over the socket: a request a line, and for each its reply or error.

use serde::{Deserialize, Serialize};
use tollway_core::Timestamp;

use super::server::View;
use crate::engine::checks::within;
use crate::engine::request::send;
use crate::{Engine, EngineError, EngineReply, EngineRequest};

/// What an engine says without a call: its promises and its time. All else is an [`EngineRequest`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AboutEngine {
    Capabilities,
    Time { now: Timestamp },
}

/// Does what a line asks for, and answers with a line.
pub(super) async fn answer(engine: &dyn Engine, view: Option<&View>, line: &[u8]) -> Vec<u8> {
    let answer = match serde_json::from_slice(line) {
        Ok(AboutEngine::Capabilities) => encode(&Ok::<_, EngineError>(engine.capabilities())),
        Ok(AboutEngine::Time { now }) => encode(&Ok::<_, EngineError>(engine.time(now))),
        Err(_) => encode(&carry_out(engine, view, line).await),
    };
    let answer = answer.unwrap_or_else(|error| encode(&Err::<(), _>(error)).unwrap_or_default());
    match answer.len() as u64 {
        0..tollway_socket::LINE_BYTES_MAX => answer,
        _ => encode(&Err::<(), _>(EngineError::caller("the answer is too large: ask for less")))
            .unwrap_or_default(),
    }
}

async fn carry_out(
    engine: &dyn Engine,
    view: Option<&View>,
    line: &[u8],
) -> Result<EngineReply, EngineError> {
    let request: EngineRequest = serde_json::from_slice(line).map_err(|error| {
        EngineError::caller(format!(
            "the process that runs the pipeline does not know this call ({error}): restart it with this version"
        ))
    })?;
    request.check_values()?;
    match request {
        EngineRequest::RunnerView => Ok(EngineReply::RunnerView(view.map(|view| view()))),
        request => send(engine, request).await,
    }
}

/// A line of JSON.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, EngineError> {
    let mut line = serde_json::to_vec(value).map_err(|error| EngineError::caller(error.to_string()))?;
    within("bytes", line.len(), usize::try_from(tollway_socket::LINE_BYTES_MAX).unwrap_or(usize::MAX))?;
    line.push(b'\n');
    Ok(line)
}
