//! Group postgres: thirty-two callers take from one hot subject in one Postgres.

mod naive;
mod server;

use std::time::Duration;

use anyhow::Result;
use tollway_testkit::servers::PostgresServer;

use super::callers::Stage;
use super::contest::{Part, contest};
use super::ours;
use super::periods::{ONE, SIX};
use super::round::{Effort, play};
use crate::keys::{Keys, VISITS};
use crate::machine;
use crate::report::BenchReport;

pub(crate) const GROUP: &str = "postgres";

const CALLERS: usize = 32;

/// Target: Tollway's decisions a second, relative to one transaction per take.
const WANTED_OF_NAIVE: f64 = 3.0;

pub(crate) fn measure(quick: bool) -> Result<BenchReport> {
    let (rounds, warm_up_ms, round_ms) = if quick { (5, 200, 450) } else { (9, 400, 1_000) };
    let (warm_up, round) = (Duration::from_millis(warm_up_ms), Duration::from_millis(round_ms));
    let effort = Effort { rounds, warm_up, round };
    let mut report = BenchReport::new(GROUP, &["tokio-postgres"]);
    let load = machine::load();
    let server = PostgresServer::start();
    notes(&server, load, effort, &mut report);
    for (case, periods) in [("one limit, 1 subject", &ONE[..]), ("six limits, 1 subject", &SIX[..])] {
        let stage = Stage { url: server.url(), periods, callers: CALLERS, keys: Keys::new(1, VISITS) };
        let parts = [
            Part::new("tollway", &[], play::<ours::Plain>),
            Part::new("FOR UPDATE, 32 connections", &[], play::<naive::Naive<CALLERS>>)
                .per_second(WANTED_OF_NAIVE),
            Part::new("FOR UPDATE, 4 connections", &[], play::<naive::Naive<4>>).per_second(WANTED_OF_NAIVE),
        ];
        contest(&server, &stage, &parts, effort, case, &mut report)?;
    }
    Ok(report)
}

fn notes(server: &PostgresServer, load: Option<f64>, effort: Effort, report: &mut BenchReport) {
    let version = server.query("SHOW server_version");
    let load = load.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let Effort { rounds, warm_up, round } = effort;
    report.note(format!(
        "Postgres {version} on the same machine, which does not wait for its disk (`fsync=off`): with a disk every commit \
         costs more, and fewer commits save more. Load of the machine before the run: {load}."
    ));
    report.note(format!(
        "{CALLERS} callers are tasks on two threads. {rounds} rounds of {} ms after {} ms of warm-up, in turn, each \
         on empty tables; of each figure the median round counts.",
        round.as_millis(),
        warm_up.as_millis()
    ));
    report.note(
        "`us CPU` is processor time for a decision, of this process and all of Postgres's; `us CPU of server` is that of \
         Postgres alone. After each round the meters are read: ours show every grant."
            .to_owned(),
    );
}
