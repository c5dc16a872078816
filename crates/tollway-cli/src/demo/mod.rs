//! `tollway demo`: worker processes share one limit of a vendor's API.
//!
//! `vendor` is the API and counts calls by its `quota` (`tally`); `worker` is a process that calls it; `worker_processes`
//! starts and stops workers; `driver` runs the demo and updates its `state`; `panel` and `screen` draw it; `report` sums up.

mod driver;
mod http;
mod panel;
mod quota;
mod report;
mod screen;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod vendor;
mod worker;
mod worker_processes;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::value_parser;
use tollway::Span;
use tollway::core::read_span;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use quota::{EDGE_MIN, MINUTE_IN_EDGES, Quota};
use report::Report;
use state::Plan;

/// Each worker is a process; more would show nothing new.
const WORKERS_MAX: usize = 64;

/// In a shorter minute, a call that a busy machine delays arrives in the next one, past the edge.
const MINUTE_MIN: Span = Span::from_micros(EDGE_MIN.as_micros() * MINUTE_IN_EDGES);
const MINUTE_MAX: Span = Span::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  tollway demo                                    eight processes, one limit, no refusals
  tollway demo --without                          the same without Tollway: refusals
  tollway demo --workers 32 --limit 500           more workers, higher limit
  tollway demo --minutes 2 --json                 a short run with JSON output

Exits with 1 if the vendor refused a call or received more calls than it allows.
Ctrl-C ends the demo early; it still prints the report.";

/// Watch eight processes share one limit
///
/// Starts a local vendor API that allows 200 requests a minute and refuses the rest. Eight worker processes call it as
/// fast as the limit allows and share it through a file. One worker is killed during the run. A minute takes 5 seconds
/// here, the demo about 25. It needs no config, uses a temporary store and removes it at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Length of the vendor's minute, from 5s to 60s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = minute)]
    minute: Span,
    /// Requests that the vendor allows per minute, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(1..=2_000))]
    limit: u64,
    /// Number of full minutes to run, at most 60
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u64).range(1..=60))]
    minutes: u64,
    /// Number of worker processes, at most 64
    #[arg(long, value_name = "N", default_value = "8", value_parser = workers)]
    workers: usize,
    /// Call without Tollway, to see the vendor's refusals
    #[arg(long)]
    without: bool,
    /// Internal: the number of a worker.
    #[arg(long, hide = true, requires = "vendor")]
    as_worker: Option<usize>,
    /// Internal: the vendor's address
    #[arg(long, hide = true, requires = "as_worker")]
    vendor: Option<SocketAddr>,
    /// Internal: the worker's store; without it, the worker does not use Tollway
    #[arg(long, hide = true, requires = "as_worker")]
    state: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let &Arguments { minute, limit, minutes, workers, without, .. } = arguments;
    let quota = Quota { limit, minute };
    if let (Some(number), Some(vendor)) = (arguments.as_worker, arguments.vendor) {
        return worker::work(number, vendor, quota, arguments.state.as_deref());
    }
    let plan = Plan { quota, minutes, workers, with_tollway: !without };
    let report = Report::of(&driver::drive(&plan, context.output())?);
    report.say(context.output())?;
    Ok(if report.is_good() { Exit::DONE } else { Exit::FAILED })
}

fn minute(text: &str) -> Result<Span, String> {
    match read_span(text)? {
        minute if (MINUTE_MIN..=MINUTE_MAX).contains(&minute) => Ok(minute),
        _ => Err(format!(
            "the minute of a demo is from {MINUTE_MIN} to {}s long: in a shorter one the edge, a twentieth of it, is too \
             short for a busy machine",
            MINUTE_MAX.as_micros() / 1_000_000
        )),
    }
}

fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(workers @ 1..=WORKERS_MAX) => Ok(workers),
        _ => Err(format!("write a number from 1 to {WORKERS_MAX}")),
    }
}
