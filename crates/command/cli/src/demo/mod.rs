//! `tollway demo`: a two-stage pipeline behind a vendor's quota, with a killed worker and a limit that changes.
//!
//! `vendor` is the API and counts calls by its `quota` (`tally`). `documents` is the work. `worker` is a process that reads
//! jobs (`protocol`) and calls the vendor; `worker_processes` says how it is started. `pipeline` runs workers under Tollway,
//! `alone` without it. `driver` runs the demo and updates its `state`; `events` is what happens on the way. `panel`, `row`
//! and `screen` draw it; `audit` and `report` sum up. `dashboard` shows it in a browser, too.

mod alone;
mod audit;
mod dashboard;
mod documents;
mod driver;
mod events;
mod http;
mod panel;
mod pipeline;
mod protocol;
mod quota;
mod report;
mod row;
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
use documents::{JOBS_MAX, JOBS_MIN};
use quota::{EDGE_MIN, MINUTE_IN_EDGES, Quota};
use report::DemoReport;
use state::Plan;
use worker::AfterRefusal;

/// Each worker is a process; more would show nothing new.
const WORKERS_MAX: u64 = 64;
/// One for each stage.
const WORKERS_MIN: u64 = 2;

/// In a shorter minute, a call that a busy machine delays arrives in the next one, past the edge.
const MINUTE_MIN: Span = Span::from_micros(EDGE_MIN.as_micros() * MINUTE_IN_EDGES);
const MINUTE_MAX: Span = Span::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  tollway demo                                    500 jobs, eight workers, no refusals
  tollway demo --without                          beside the same workers without Tollway
  tollway demo --without=retry-after              which obey the vendor's Retry-After
  tollway demo --workers 32 --limit 500           more workers, higher limit
  tollway demo --keep                             keep its dashboard open at the end
  tollway demo --jobs 60 --limit 40 --json        a short run with JSON output

Exits with 1 if, under Tollway, the vendor refused a call or a job was lost, done twice or not done.
Ctrl-C ends the demo early; it still prints the report.";

/// Watch a pipeline run behind a vendor's quota
///
/// Starts a local vendor API that allows 200 requests a minute and refuses the rest. 500 jobs pass two stages, each with a
/// call to the vendor, in eight worker processes. On the way the vendor lowers its limit for two minutes, a worker is
/// killed, and three jobs fail until their data is corrected. A minute takes 5 seconds here, the demo half a minute. It
/// needs no config, keeps its jobs in a temporary folder and removes it at the end. Its dashboard is at the address that it
/// prints first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Length of the vendor's minute, from 5s to 60s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = minute)]
    minute: Span,
    /// Requests that the vendor allows per minute, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(1..=2_000))]
    limit: u64,
    /// Number of jobs, from 10 to 2000; each passes two stages
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u64).range(JOBS_MIN..=JOBS_MAX))]
    jobs: u64,
    /// Number of worker processes, from 2 to 64
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u64).range(WORKERS_MIN..=WORKERS_MAX))]
    workers: u64,
    /// Run the same workers without Tollway beside it; refused, they call again
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "at-once")]
    without: Option<AfterRefusal>,
    /// Keep the dashboard open after the last job, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Internal: be a worker and register in this folder
    #[arg(long, hide = true, value_name = "FOLDER", requires = "vendor")]
    as_worker: Option<PathBuf>,
    /// Internal: the vendor's address
    #[arg(long, hide = true, requires = "as_worker")]
    vendor: Option<SocketAddr>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let &Arguments { minute, limit, jobs, workers, without, .. } = arguments;
    if let (Some(folder), Some(vendor)) = (&arguments.as_worker, arguments.vendor) {
        return worker::work(folder, vendor, without);
    }
    let plan = Plan { jobs, workers, without };
    let (state, audit, kept) = driver::drive(plan, Quota::new(limit, minute), context.output())?;
    let report = DemoReport::of(&state, audit);
    report.say(context.output())?;
    if let Some(serving) = kept.serving.as_ref().filter(|_| arguments.keep) {
        context.output().flush()?;
        context.output().note(format_args!("the dashboard stays open until Ctrl-C: {}", serving.url));
        kept.wait();
    }
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
