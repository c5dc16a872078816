//! `tollway demo`: something worth seeing at once.
//!
//! `vendor` is somebody else's API and counts for itself (`tally`, by its `quota`); `worker` is a process that calls it;
//! `crew` starts and ends those; `course` is what happens when, and `play` lets it happen; `panel` and `screen` show it; `report` says what came of it.

mod course;
mod crew;
mod http;
mod panel;
mod play;
mod quota;
mod report;
mod screen;
mod tally;
#[cfg(test)]
mod tests;
mod vendor;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::value_parser;
use tollway::Span;
use tollway::core::read_span;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use course::Plan;
use quota::Quota;
use report::Report;

/// More would say nothing new, and each is a process.
const WORKERS_MAX: usize = 64;

const MINUTE_MIN: Span = Span::from_secs(1);
const MINUTE_MAX: Span = Span::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  tollway demo                                    eight processes, one limit, no refusal
  tollway demo --without                          the same without Tollway: refusals
  tollway demo --workers 32 --limit 500           more of everything
  tollway demo --minute 1s --minutes 3 --json     a quick one, for programs

Ends with 1 if the vendor refused a call or was called more often than it allows.
Ctrl-C ends it early and still reports.";

/// Watch eight processes share one limit
///
/// A vendor inside this command allows 200 requests a minute, counts for itself and refuses the rest. Eight worker
/// processes call it as fast as they may and share the limit through a file. One of them is killed on the way. A minute
/// takes 5 seconds here, the whole of it about 25. It needs no config, has a store of its own and leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How long the vendor's minute takes, from 1s to 60s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = minute)]
    minute: Span,
    /// How many requests the vendor allows in each minute, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(1..=2_000))]
    limit: u64,
    /// How many whole minutes to watch, at most 60
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u64).range(1..=60))]
    minutes: u64,
    /// How many processes call, at most 64
    #[arg(long, value_name = "N", default_value = "8", value_parser = workers)]
    workers: usize,
    /// Let the workers call without Tollway, to see what the vendor says to that
    #[arg(long)]
    without: bool,
    /// How the demo starts a worker: its number. Nothing for people.
    #[arg(long, hide = true, requires = "vendor")]
    as_worker: Option<usize>,
    /// Where that worker's vendor listens
    #[arg(long, hide = true, requires = "as_worker")]
    vendor: Option<SocketAddr>,
    /// The store of that worker; none: it calls without Tollway
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
    let report = Report::of(&play::play(&plan, context.output())?);
    report.say(context.output())?;
    Ok(if report.is_good() { Exit::DONE } else { Exit::FAILED })
}

fn minute(text: &str) -> Result<Span, String> {
    match read_span(text)? {
        minute if (MINUTE_MIN..=MINUTE_MAX).contains(&minute) => Ok(minute),
        _ => Err(format!(
            "a minute of the demo takes from {MINUTE_MIN} to {}s",
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
