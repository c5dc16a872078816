//! `pipeline dead redrive`: dead letters are tried again.

use tollway_pipeline::{Change, State};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::change::{self, JobRate, Request, Words};
use crate::pipeline::filter::Selection;
use crate::pipeline::session::Which;

/// Try dead letters again, with all their tries
///
/// They keep their age, so they are claimed before jobs that came later. With --rate they become ready little by little, and a
/// vendor that has just recovered is not flooded. It may be interrupted: the rest stay dead letters, and the same command
/// goes on with them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead redrive --id 104
  tollway pipeline dead redrive --error timeout --dry-run
  tollway pipeline dead redrive --all --limit 10   a few first
  tollway pipeline dead redrive --all --rate \"100 / minute\"

Exits with 0; with 130 after Ctrl-C.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// At most so many in a period, evenly, e.g. "100 / minute" or "5000 / day"
    #[arg(long, value_name = "RATE", value_parser = JobRate::read)]
    rate: Option<JobRate>,
    /// The most dead letters, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Change nothing, and say how many it would be
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let request = Request {
        selection: &arguments.selection,
        state: Some(State::Dead),
        change: Change::Redrive,
        dry_run: arguments.dry_run,
        limit: arguments.limit,
        rate: arguments.rate.as_ref(),
        confirmation: None,
        words: Words { noun: "dead letters", present: "redrive".to_owned(), past: "redrove".to_owned() },
    };
    change::apply(&request, which, context)
}
