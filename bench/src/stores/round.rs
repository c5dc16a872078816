//! One round: starts an entrant, warms it up and measures it.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Builder;

use super::callers::{Entrant, Stage, run};
use super::figures::Figures;

const WORKER_THREADS: usize = 2;

/// The size of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) rounds: usize,
    /// The warm-up.
    pub(super) warm_up: Duration,
    pub(super) round: Duration,
}

/// The server with the limits, and its command counts.
pub(super) trait Server {
    /// Its processor time so far.
    fn time(&self) -> Result<Duration>;
    /// Deletes all counters.
    fn empty(&self);
    /// Starts counting commands.
    fn count_commands(&self);
    /// How often clients have sent one of these commands since, if known.
    fn commands(&self, names: &[&str]) -> Option<u64>;
}

pub(super) fn play<E: Entrant>(
    server: &dyn Server,
    stage: &Stage,
    sends: &[&str],
    effort: Effort,
) -> Result<Figures> {
    server.empty();
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(WORKER_THREADS).enable_all().build()?;
    let entrant = runtime.block_on(E::start(stage))?;
    let before = run(&entrant, stage, &runtime, effort.warm_up)?;
    server.count_commands();
    let server_time = server.time()?;
    let ran = run(&entrant, stage, &runtime, effort.round)?;
    let server_time = server.time()?.saturating_sub(server_time);
    let commands = server.commands(sends);
    if let [only] = &*stage.keys.keys {
        runtime.block_on(entrant.check(only, before.takes + ran.takes)).context("what was counted")?;
    }
    // Ends all of its tasks before the next measurement.
    drop(entrant);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(Figures::of(&ran, server_time, commands))
}
