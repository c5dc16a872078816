//! Waits at the start for an engine that does not answer yet: machines start in any order.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tollway::Span;
use tollway::core::Retry;
use tollway_pipeline::{EngineError, EngineFault, EngineUrl};

use crate::failure::Failure;
use crate::humanize;

/// When to say what does not answer, for those who watch.
const SAY_AFTER: Duration = Duration::from_secs(2);

/// The pause between two attempts.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Why a pipeline has not started.
pub(super) enum StartError {
    /// The engine failed.
    Engine(EngineError),
    /// Something else is wrong.
    Other(Failure),
}

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<EngineError> for StartError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Starts what needs the engine, again and again until it answers; `within`: at most this long.
pub(super) async fn wait_for_engine<T>(
    url: &EngineUrl,
    within: Option<Span>,
    mut start: impl AsyncFnMut() -> Result<T, StartError>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let deadline = within.map(|within| begun + Duration::from(within));
    let patience = within.map_or_else(
        || "trying until it does".to_owned(),
        |within| format!("trying for {}", humanize::span(within)),
    );
    let mut said = false;
    loop {
        let error = {
            let starting = start();
            tokio::pin!(starting);
            loop {
                tokio::select! {
                    started = &mut starting => match started {
                        Ok(started) => return Ok(said_ready(said, started)),
                        Err(StartError::Engine(error)) if may_pass(url, &error) => break Some(error),
                        Err(StartError::Engine(error)) => return Err(error.into()),
                        Err(StartError::Other(failure)) => return Err(failure),
                    },
                    () = sleep_until(begun + SAY_AFTER), if !said => {
                        said = true;
                        tracing::warn!("the engine {url} has not answered for 2 s; {patience}");
                    }
                    () = at(deadline) => break None,
                }
            }
        };
        let Some(error) = error else {
            let failure = format!(
                "the engine {url} has not answered within {}",
                humanize::span(within.unwrap_or(Span::MAX))
            );
            return Err(Failure::new(crate::failure::Exit::STORE, failure).advise(ADVICE));
        };
        if !said {
            said = true;
            tracing::warn!(%error, "the engine {url} does not answer; {patience}");
        }
        if deadline.is_some_and(|deadline| Instant::now() + TRY_EVERY >= deadline) {
            return Err(Failure::from(error).advise(ADVICE));
        }
        sleep(TRY_EVERY).await;
    }
}

const ADVICE: &str = "start it, or wait longer: --wait-for-engine 10m, or --stay";

fn said_ready<T>(said: bool, started: T) -> T {
    if said {
        tracing::warn!("the engine answers");
    }
    started
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether the same may succeed soon. A file that another pipeline runs on stays busy.
fn may_pass(url: &EngineUrl, error: &EngineError) -> bool {
    let is_owned = matches!(url, EngineUrl::Sqlite(_)) && error.fault == EngineFault::Busy;
    error.fault != EngineFault::Caller && error.retry != Retry::Useless && !is_owned
}
