//! `pipeline cancel`: takes jobs out of their stages.

use tollway_pipeline::{Change, State};

use super::change::{self, Confirmation, Request, Words};
use super::filter::Selection;
use super::session::Which;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Cancel jobs: they leave their stage and hand nothing on
///
/// A call that runs is not recalled: the vendor may finish and bill it, and its answer is ignored. Keys of cancelled jobs stay
/// known until the stage's retention is over: until then, only `enqueue --again` makes new jobs of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline cancel --group job-123 --dry-run
  tollway pipeline cancel --group job-123
  tollway pipeline cancel --stage extract --state delayed --yes
  tollway pipeline cancel --all --yes              everything that has not left

Exits with 0; with 1 if you say no, or if there is no job with that --id or --key; with 130 after Ctrl-C, and then the same command goes on.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Only jobs in this state: ready, delayed, held, running or dead
    #[arg(long, value_name = "STATE", value_parser = read_state)]
    state: Option<State>,
    /// Cancel nothing, and say how many jobs it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// A state that a job has not left its stage in.
pub(super) fn read_state(text: &str) -> Result<State, String> {
    let open = || State::ALL.into_iter().filter(|state| !state.has_left());
    open().find(|state| state.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = open().map(State::as_str).collect();
        format!("not one of {}", names.join(", "))
    })
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let request = Request {
        job: None,
        selection: &arguments.selection,
        state: arguments.state,
        change: Change::Cancel,
        dry_run: arguments.dry_run,
        limit: None,
        rate: None,
        confirmation: Some(&arguments.confirmation),
        words: Words { noun: "jobs", present: "cancel".to_owned(), past: "cancelled".to_owned() },
    };
    change::apply(&request, which, context)
}
