//! Asks the process that owns the jobs.

use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tollway_core::{Retry, Timestamp};
use tollway_socket::SocketClient;

use super::protocol::{AboutEngine, encode};
use super::socket_path;
use crate::engine::checks::refuse;
use crate::engine::sqlite::owner_pid;
use crate::{Capabilities, Engine, EngineAnswer, EngineError, EngineFault, EngineReply, EngineRequest};

/// The jobs of a process that runs a pipeline on this machine.
pub struct SocketEngine {
    file: Arc<Path>,
    capabilities: Capabilities,
    clock: Option<OwnersClock>,
    client: SocketClient,
}

/// The time of the process that owns the jobs: it began with the machine's date, and goes on evenly whatever becomes of that.
#[derive(Clone, Copy)]
struct OwnersClock {
    at: Timestamp,
    then: Instant,
}

impl OwnersClock {
    /// None: the times of calls count as they are, or that process is of a version that has no clock.
    async fn ask(file: &Path, client: &SocketClient) -> Result<Option<Self>, EngineError> {
        let said = client
            .ask(encode(&AboutEngine::Time { now: Timestamp::EPOCH })?)
            .await
            .map_err(|error| lost(file, &error))?;
        // After the answer: a time that is ahead would put the owner's clock ahead, a little more with each command.
        let then = Instant::now();
        let at = decode(&said).unwrap_or(Timestamp::EPOCH);
        Ok((at > Timestamp::EPOCH).then_some(Self { at, then }))
    }

    fn now(&self) -> Timestamp {
        self.at.plus(self.then.elapsed().into())
    }
}

impl SocketEngine {
    /// Connects to the process that owns this file and runs its pipeline. None: no process listens there. One that does and
    /// does not answer is an error that names it.
    pub async fn connect(file: &Path) -> Result<Option<Self>, EngineError> {
        let Some(client) = client(file)? else { return Ok(None) };
        let said =
            client.ask(encode(&AboutEngine::Capabilities)?).await.map_err(|error| lost(file, &error))?;
        let clock = OwnersClock::ask(file, &client).await?;
        Ok(Some(Self { file: file.into(), capabilities: decode(&said)?, clock, client }))
    }

    /// Whether a process runs the pipeline of this file. It may be suspended.
    pub fn is_served(file: &Path) -> bool {
        !matches!(client(file), Ok(None))
    }
}

fn client(file: &Path) -> Result<Option<SocketClient>, EngineError> {
    let path = socket_path(file);
    SocketClient::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => lost(file, &error),
        _ => {
            let message = format!("{} cannot be used: {error}", path.display());
            EngineError { fault: EngineFault::Network, retry: Retry::Safe, message }
        }
    })
}

fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice::<Result<T, EngineError>>(line).unwrap_or_else(|error| Err(unexpected(&error)))
}

fn unexpected(error: &serde_json::Error) -> EngineError {
    EngineError::caller(format!(
        "the process that runs the pipeline answered otherwise than expected ({error}): restart it with this version"
    ))
}

fn lost(file: &Path, error: &io::Error) -> EngineError {
    let unclear = |message| EngineError { fault: EngineFault::Network, retry: Retry::Unclear, message };
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            let message = "too many calls wait already; try again later".to_owned();
            EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message }
        }
        io::ErrorKind::TimedOut => unclear(unanswered(file)),
        _ => {
            unclear(format!("the process that runs the pipeline did not answer ({error}); it may have ended"))
        }
    }
}

/// Which process does not answer, and what to do.
fn unanswered(file: &Path) -> String {
    let file_name = file.display();
    let Some(pid) = owner_pid(file) else {
        return format!(
            "the process that runs the pipeline of {file_name} does not answer; it may be suspended"
        );
    };
    format!(
        "process {pid}, which runs the pipeline of {file_name}, does not answer. See `ps -o pid,stat,args -p {pid}`: if it is \
         suspended (T), `kill -CONT {pid}` lets it go on; `kill -KILL {pid}` ends it, and the next run tries its jobs again"
    )
}

impl Engine for SocketEngine {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.map_or(now, |clock| clock.now())
    }

    fn call(&self, mut request: EngineRequest) -> EngineAnswer<EngineReply> {
        if let Some(now) = request.now_mut() {
            *now = self.time(*now);
        }
        match &mut request {
            // The counts of a file are those of one moment.
            EngineRequest::SettledCounts { .. } => {
                let counts = self.counts();
                return Box::pin(async move { Ok(EngineReply::SettledCounts(Some(counts.await?))) });
            }
            // The other process does these for itself.
            EngineRequest::ClaimName { .. } | EngineRequest::Tidy | EngineRequest::Flush => {
                return Box::pin(ready(request.unsupported()));
            }
            EngineRequest::Backup { target } => match std::path::absolute(&*target) {
                // The other process may be in another folder.
                Ok(absolute) => *target = absolute,
                Err(error) => {
                    return refuse(EngineError::caller(format!("{} is no path: {error}", target.display())));
                }
            },
            _ => {}
        }
        let (asked, file) = match encode(&request) {
            Ok(line) => (self.client.ask(line), self.file.clone()),
            Err(error) => return refuse(error),
        };
        Box::pin(async move {
            let said = asked.await.map_err(|error| lost(&file, &error))?;
            request.read_reply(&said).unwrap_or_else(|error| Err(unexpected(&error)))
        })
    }
}
