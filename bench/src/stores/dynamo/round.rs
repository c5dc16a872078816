//! One round: an entrant on its own, empty DynamoDB.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tollway_testkit::faults::AwsFront;
use tollway_testkit::servers::DynamoServer;

use super::figures::Figures;
use crate::stores::callers::{Entrant, Stage, run};
use crate::stores::round::Effort;

pub(super) const TABLE: &str = "bench";

/// The counts of the proxy.
pub(super) struct Counted {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) failed: u64,
}

impl Counted {
    fn by(front: &AwsFront) -> Self {
        let writes = front.writes() + front.count("UpdateItem");
        Self { reads: front.count("GetItem"), writes, failed: front.failed_conditions() }
    }
}

pub(super) fn play<E: Entrant>(stage: &Stage, effort: Effort) -> Result<Figures> {
    let server = DynamoServer::start();
    let front = AwsFront::to(server.addr());
    let url = DynamoServer::url_through(front.addr(), TABLE);
    let stage = Stage { url, periods: stage.periods, callers: stage.callers, keys: stage.keys.clone() };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let entrant = runtime.block_on(E::start(&stage))?;
    let warm_up = run(&entrant, &stage, &runtime, effort.warm_up)?;
    let before = Counted::by(&front);
    let ran = run(&entrant, &stage, &runtime, effort.round)?;
    let figures = Figures::of(&ran, &before, &Counted::by(&front));
    let takes = warm_up.takes + ran.takes;
    runtime.block_on(entrant.check(&stage.keys.keys[0], takes)).context("what was counted")?;
    drop(entrant);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(figures)
}
