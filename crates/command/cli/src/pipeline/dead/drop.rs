//! `pipeline dead drop`: gives dead letters up.

use tollway_pipeline::{Change, State};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::change::{self, Confirmation, Request, Words};
use crate::pipeline::filter::Selection;
use crate::pipeline::session::Which;

/// Give dead letters up: they leave their stage and hand nothing on
///
/// A stage that waits for their group goes on without them. `dead export` keeps a copy.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead drop 104                   one, by its number or key
  tollway pipeline dead drop --error \"HTTP 404\" --dry-run
  tollway pipeline dead drop --group job-123
  tollway pipeline dead drop --all --yes           without a terminal, as in cron

Exits with 0; with 66 if there is no such job; with 1 if you say no, or if it is no dead letter; with 130 after Ctrl-C, and then the
same command goes on.")]
pub(crate) struct Arguments {
    /// The number or the key of one dead letter, in place of a filter
    #[arg(value_name = "ID|KEY")]
    job: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Drop nothing, and say how many it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let request = Request {
        job: arguments.job.as_deref(),
        selection: &arguments.selection,
        state: Some(State::Dead),
        change: Change::Cancel,
        dry_run: arguments.dry_run,
        limit: None,
        rate: None,
        confirmation: Some(&arguments.confirmation),
        words: Words { noun: "dead letters", present: "drop".to_owned(), past: "dropped".to_owned() },
    };
    change::apply(&request, which, context)
}
