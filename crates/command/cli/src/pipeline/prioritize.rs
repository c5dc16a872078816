//! `pipeline prioritize`: which jobs are claimed first.

use tollway_pipeline::{Change, State};

use super::cancel::read_state;
use super::change::{self, Request, Words};
use super::filter::Selection;
use super::session::Which;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Set the priority of jobs: higher is claimed first
///
/// Jobs have priority 0 unless they were enqueued with another. Outputs inherit the priority of their job.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline prioritize 10 --group job-123   this file first
  tollway pipeline prioritize -5 --stage extract   after everything else of its stage
  tollway pipeline prioritize 0 --all")]
pub(crate) struct Arguments {
    /// The priority, from -32768 to 32767
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i16,
    #[command(flatten)]
    selection: Selection,
    /// Only jobs in this state: ready, delayed, held, running or dead
    #[arg(long, value_name = "STATE", value_parser = read_state)]
    state: Option<State>,
    /// Change nothing, and say how many jobs it would be
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let priority = format!("set priority {} for", arguments.priority);
    let request = Request {
        job: None,
        selection: &arguments.selection,
        state: arguments.state,
        change: Change::Reprioritise(arguments.priority),
        dry_run: arguments.dry_run,
        limit: None,
        rate: None,
        confirmation: None,
        words: Words { noun: "jobs", present: priority.clone(), past: priority },
    };
    change::apply(&request, which, context)
}
