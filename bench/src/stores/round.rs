//! One round: an entrant, started anew, for a moment to get going and then for the time that counts.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Builder;

use super::callers::{Entrant, Stage, run};
use super::figures::Figures;
use crate::processor;

const WORKER_THREADS: usize = 2;

/// How much is measured.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) rounds: usize,
    /// How long an entrant takes before it is measured.
    pub(super) warm_up: Duration,
    pub(super) round: Duration,
}

/// The server that keeps the limits, and how often it was asked.
pub(super) trait Server {
    fn pid(&self) -> u32;
    /// Forgets all that was counted.
    fn empty(&self);
    /// Counts commands from here on.
    fn count_commands(&self);
    /// How often clients sent one of these commands since, if it knows.
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
    let server_time = processor::time_of(server.pid())?;
    let ran = run(&entrant, stage, &runtime, effort.round)?;
    let server_time = processor::time_of(server.pid())?.saturating_sub(server_time);
    let commands = server.commands(sends);
    if let [only] = &*stage.keys.keys {
        runtime.block_on(entrant.check(only, before.takes + ran.takes)).context("what was counted")?;
    }
    // So that none of its tasks still runs when the next one is measured.
    drop(entrant);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(Figures::of(&ran, server_time, commands))
}
