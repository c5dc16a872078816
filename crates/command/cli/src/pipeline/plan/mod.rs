//! `pipeline plan`: how long a backlog takes in this pipeline, before it runs.
//!
//! `work` is what has to be done, `forecast` what the limits and workers make of it, `disk` how much it stores, `verdict` what is
//! wrong with the config; `text` and `json` write it.

mod disk;
mod forecast;
mod json;
mod text;
mod verdict;
mod work;

use tollway::Span;

use super::session::{Which, runtime};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::plan::parse;
use disk::Disk;
use forecast::PipelineForecast;
use work::{Observed, Work};

/// How long a call takes if it is not said: the document's example.
const LATENCY_DEFAULT: Span = Span::from_secs(10);

/// Forecast how long a backlog takes, how many workers and how much disk it needs
///
/// Computes from the stages' `take` and the limits of the config: items a minute, hour and day, the end as a range, how many
/// workers are enough, and whether finished jobs are kept until the end. Takes nothing and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline plan --items 1M --latency 10s
  tollway pipeline plan --items 1M --latency autotag=12s --latency extract=4s
  tollway pipeline plan                            for the jobs that are enqueued

The range: without any retry, to 10% more calls for retries, or as many more as this pipeline had so far.
Each job hands one on. Jobs with a cost of their own count as others of their stage. A stage that takes nothing is not
planned, unless --latency names it.

Exits with 0; with 78 if a stage's retention is shorter than the backlog may take.")]
pub(crate) struct Arguments {
    /// Number of items: 1000000, 1_000_000 or 1M [default: the jobs that are left]
    #[arg(long, value_name = "N", value_parser = parse::items)]
    items: Option<u64>,
    /// How long one call takes, e.g. 10s, or of one stage: extract=4s; repeatable [default: 10s]
    #[arg(long, value_name = "[STAGE=]TIME", value_parser = read_latency)]
    latency: Vec<Latency>,
}

/// How long a call takes, in one stage or in all.
#[derive(Clone, Debug)]
struct Latency {
    stage: Option<String>,
    latency: Span,
}

fn read_latency(text: &str) -> Result<Latency, String> {
    let (stage, latency) = match text.split_once('=') {
        Some((stage, latency)) => (Some(stage.trim().to_owned()), latency),
        None => (None, text),
    };
    Ok(Latency { stage, latency: parse::latency(latency)? })
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, limits) = which.config(context)?;
    let observed = runtime()?.block_on(Observed::read(&config, arguments.items.is_some()))?;
    let work = Work::new(&config, arguments, &observed)?;
    let forecast = PipelineForecast::new(&work, &limits, context.now())?;
    let disk = Disk::new(&config.engine, &work, &observed);
    let verdict = verdict::of(&work, &forecast);
    let output = context.output();
    if output.is_json() {
        output.json(&json::of(&work, &forecast, &disk, verdict.as_ref()))?;
    } else {
        text::write(&work, &forecast, &disk, context)?;
    }
    match verdict {
        Some(verdict) => Err(verdict.failure()),
        None => Ok(Exit::DONE),
    }
}
