//! One round: an entrant, started anew on an empty DynamoDB of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tollway_testkit::faults::AwsFront;
use tollway_testkit::servers::DynamoServer;

use crate::rounds::median;
use crate::stores::callers::{Entrant, Ran, Stage, run};
use crate::stores::round::Effort;

pub(super) const TABLE: &str = "bench";

/// Each per decision, but for the first and the last.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) middle_micros: f64,
    pub(super) slow_micros: f64,
    pub(super) writes: f64,
    pub(super) reads: f64,
    pub(super) failed_percent: f64,
}

/// What the front has counted.
struct Counted {
    reads: u64,
    writes: u64,
    failed: u64,
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

impl Figures {
    fn of(ran: &Ran, before: &Counted, after: &Counted) -> Self {
        let takes = ran.takes.max(1) as f64;
        let latency = |percent: usize| {
            let rank = ran.latencies.get(ran.latencies.len() * percent / 100).copied();
            rank.unwrap_or_default().as_secs_f64() * 1e6
        };
        let writes = (after.writes - before.writes) as f64;
        Self {
            per_second: ran.takes as f64 / ran.wall.as_secs_f64(),
            middle_micros: latency(50),
            slow_micros: latency(99),
            writes: writes / takes,
            reads: (after.reads - before.reads) as f64 / takes,
            failed_percent: (after.failed - before.failed) as f64 * 100.0 / writes.max(1.0),
        }
    }

    /// Of each figure the one in the middle.
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            per_second: of(|figures| figures.per_second),
            middle_micros: of(|figures| figures.middle_micros),
            slow_micros: of(|figures| figures.slow_micros),
            writes: of(|figures| figures.writes),
            reads: of(|figures| figures.reads),
            failed_percent: of(|figures| figures.failed_percent),
        }
    }
}
