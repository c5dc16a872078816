//! Group pipeline: durable jobs through two empty stages, beside other job queues, and a backlog of a million jobs.
//!
//! [`ours`] is Tollway's library in this process, [`rivals`] starts the other queues, [`disk`] measures the disk alone, and
//! [`contest`] runs them in turn. [`backlog`] measures the command `tollway pipeline` with many jobs waiting.

mod backlog;
mod contest;
mod disk;
mod handler;
mod ours;
mod programs;
mod rivals;

use std::time::Duration;

use anyhow::Result;
use tollway_testkit::servers::PostgresServer;

pub(crate) use handler::answer_jobs;

use crate::machine;
use crate::report::BenchReport;
use contest::{Effort, Part, contest};

pub(crate) const GROUP: &str = "pipeline";

const RIVALS: &[&str] = &["apalis-sqlite", "graphile_worker"];

const WORKERS: &[u32] = &[1, 32, 128];
const WORKERS_QUICK: &[u32] = &[1, 128];

/// Target: Tollway's jobs a second, relative to apalis.
const WANTED_OF_APALIS: f64 = 3.0;

/// The test kit's server does not wait for its disk; this one does.
const DURABLE: [&str; 3] = ["fsync=on", "synchronous_commit=on", "max_connections=200"];

pub(crate) fn measure(quick: bool) -> Result<BenchReport> {
    disk::check()?;
    let (rounds, round_ms) = if quick { (2, 300) } else { (5, 2_000) };
    let effort = Effort { rounds, round: Duration::from_millis(round_ms) };
    let mut report = BenchReport::new(GROUP, RIVALS);
    let load = machine::load();
    let programs = programs::find()?;
    let server = PostgresServer::start_with(&DURABLE);
    notes(&server, load, effort, &mut report);
    for &workers in if quick { WORKERS_QUICK } else { WORKERS } {
        let plural = if workers == 1 { "worker" } else { "workers" };
        let parts = [
            Part::new("tollway", ours::Sqlite),
            Part::new("apalis, synchronous=FULL", rivals::Apalis::new(&programs, "apalis"))
                .wanted(WANTED_OF_APALIS),
            Part::new("apalis, synchronous=OFF", rivals::Apalis::new(&programs, "apalis-off")),
        ];
        contest(
            &format!("{workers} {plural}, SQLite"),
            workers,
            &parts,
            Some(disk::syncs),
            effort,
            &mut report,
        )?;
        let parts = [
            Part::new("tollway", ours::Postgres(&server)),
            Part::new("graphile_worker", rivals::Graphile { programs: &programs, server: &server }),
        ];
        contest(&format!("{workers} {plural}, Postgres"), workers, &parts, None, effort, &mut report)?;
    }
    backlog::measure(&programs, quick, effort, &mut report)?;
    Ok(report)
}

fn notes(server: &PostgresServer, load: Option<f64>, effort: Effort, report: &mut BenchReport) {
    let load = load.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    report.note(format!(
        "Load of the machine before the run: {load}. {} rounds of about {} ms, in alternating order, each on an empty \
         database in the folder for temporary files; of each figure the median round counts. A round ends when every job \
         is recorded as done.",
        effort.rounds,
        effort.round.as_millis()
    ));
    report.note(format!(
        "SQLite is in WAL mode. Postgres {} with `fsync` and `synchronous_commit` on. `workers` is how many jobs run at a \
         time: in both stages together for ours and graphile_worker, in each stage for apalis.",
        server.query("SHOW server_version")
    ));
    report.note(
        "apalis has the settings with which it was fastest here: one connection (with the 10 of a default pool, 13 jobs a \
         second get through), batches of 128, a look at an empty queue every 10 ms, a heartbeat every second. Its setup sets \
         `synchronous=OFF`, for the one connection that runs it: a power cut may then lose jobs that were accepted. \
         graphile_worker has the local queue and poll interval of its own benches."
            .to_owned(),
    );
    report.note(
        "`commits/s` compares the disk alone, which writes 4 KiB and waits for it (`fdatasync`) in a loop, with the ends of jobs \
         that ours commits: two for each job, one per stage. Ends of jobs that come at the same time share a sync."
            .to_owned(),
    );
}
