//! Group server: the cost of a decision including its protocol, compared with other servers.
//!
//! Every server is a separate process ([`entrants`]). [`load`] sends the same requests to each in turn, [`contest`] reads the
//! server's processor time, and [`http`], [`grpc`] and [`resp`] define participants and requests.

mod check;
mod contest;
mod entrants;
mod figures;
mod grpc;
mod http;
mod load;
mod neighbour;
mod open_loop;
mod pinning;
mod resp;

use std::time::Duration;

use anyhow::Result;

pub(crate) use entrants::{Served, serve};

use crate::machine;
use crate::report::BenchReport;
use contest::Effort;
use entrants::Entrants;

pub(crate) const GROUP: &str = "server";

const RIVALS: &[&str] = &["limitador", "tonic", "throttlecrab"];

/// Number of keys, if the load generator supports several.
const KEYS: u32 = 100_000;

pub(crate) fn measure(quick: bool) -> Result<BenchReport> {
    // Many short rounds instead of a few long ones: other load comes and goes within seconds.
    let (rounds, warm_up_ms, round_ms) = if quick { (3, 100, 350) } else { (15, 1_000, 1_000) };
    let effort =
        Effort { rounds, warm_up: Duration::from_millis(warm_up_ms), round: Duration::from_millis(round_ms) };
    load::check_installed()?;
    let load = machine::load();
    let entrants = Entrants::start()?;
    let mut report = BenchReport::new(GROUP, RIVALS);
    notes(&entrants, load, effort, &mut report);
    let ours = http::measure(&entrants, effort, &mut report)?;
    grpc::measure(&entrants, effort, &mut report)?;
    resp::measure(&entrants, effort, &mut report)?;
    open_loop::measure(&entrants, quick, &mut report)?;
    neighbour::measure(&entrants, ours.per_second, effort, &mut report)?;
    crate::stores::redis::measure_consumers(quick, &mut report)?;
    Ok(report)
}

fn notes(entrants: &Entrants, load: Option<f64>, effort: Effort, report: &mut BenchReport) {
    let redis: String =
        resp::fact_of(&entrants.redis.command(&["INFO", "server"]), "redis_version").unwrap_or_default();
    let load = load.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let Effort { rounds, warm_up, round } = effort;
    report.note(format!(
        "Load of the machine before the run: {load}. The server and the load generator share its cores, so \
         `requests/s` and `us p99` are of both together; `us CPU of server` is of the server alone, and the figure to \
         compare."
    ));
    report.note(format!(
        "{rounds} rounds of {} ms (wrk: whole seconds) after {} ms of warm-up, in alternating order; of each figure the \
         median round counts. All servers run the whole time; those without load are idle. Redis {redis}, without persistence.",
        round.as_millis(),
        warm_up.as_millis()
    ));
    report.note(
        "wrk sends HTTP, h2load gRPC, redis-benchmark RESP, each from one thread; for 100,000 random keys, but \
         h2load for one. Everything is granted. Before, each server has granted two of two and denied the third; after, it \
         still grants. An error response ends the run."
            .to_owned(),
    );
    report.note(
        "`cores` is the server's processor time by the time that passed: what it had of the machine while the other program \
         took the rest. `threads` is that of all its threads by that of the busiest: 2 where two share the work evenly."
            .to_owned(),
    );
}
