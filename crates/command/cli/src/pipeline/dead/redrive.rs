//! `pipeline dead redrive`: dead letters are tried again.

use tollway_pipeline::view::JobRate;
use tollway_pipeline::{Change, EngineUrl, State};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::change::{self, Request, Words};
use crate::pipeline::filter::Selection;
use crate::pipeline::session::Which;

/// Try dead letters again, with all their tries
///
/// They keep their age, so they are claimed before jobs that came later. With --rate they become ready little by little, and a
/// vendor that has just recovered is not flooded. It may be interrupted: the rest stay dead letters, and the same command
/// goes on with them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead redrive 104                one, by its number or key
  tollway pipeline dead redrive --error timeout --dry-run
  tollway pipeline dead redrive --all --limit 10   a few first
  tollway pipeline dead redrive --all --rate \"100 / minute\"
  tollway pipeline dead redrive --all --move-task  by SQS itself
  tollway pipeline dead redrive --stage autotag --move-task --rate \"50 / second\"

A move task of SQS takes a whole stage, with no other filter. There is one per queue, and --rate is that of
each: 1 to 500 a second. The queue needs a redrive policy that names it, as `tollway provision aws` sets it.

Exits with 0; with 66 if there is no such job; with 1 if it is no dead letter; with 130 after Ctrl-C, which also cancels move tasks.")]
pub(crate) struct Arguments {
    /// The number or the key of one dead letter, in place of a filter
    #[arg(value_name = "ID|KEY")]
    job: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// At most so many in a period, evenly, e.g. "100 / minute" or "5000 / day"
    #[arg(long, value_name = "RATE", value_parser = JobRate::read)]
    rate: Option<JobRate>,
    /// The most dead letters, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Let SQS move all messages of a stage back (StartMessageMoveTask)
    #[arg(long)]
    move_task: bool,
    /// Change nothing, and say how many it would be
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let [present, past] =
        if arguments.move_task { ["move back", "moved back"] } else { ["redrive", "redrove"] };
    let request = Request {
        job: arguments.job.as_deref(),
        selection: &arguments.selection,
        state: Some(State::Dead),
        change: Change::Redrive,
        dry_run: arguments.dry_run,
        limit: arguments.limit,
        rate: arguments.rate.as_ref(),
        confirmation: None,
        words: Words { noun: "dead letters", present: present.to_owned(), past: past.to_owned() },
    };
    match arguments.move_task {
        true => with_move_task(&request, which, context),
        false => change::apply(&request, which, context),
    }
}

fn with_move_task(request: &Request<'_>, which: &Which, context: &Context) -> Result<Exit, Failure> {
    if request.job.is_some() || !request.selection.jobs().takes_whole_stages() || request.limit.is_some() {
        let message = "a move task knows no filter: it takes all dead letters of a stage, or of all";
        return Err(Failure::usage(message).advise("leave --move-task out: the same command does it"));
    }
    let (config, _) = which.config(context)?;
    if !matches!(config.engine, EngineUrl::Sqs(_)) {
        let message =
            format!("only SQS has move tasks; the jobs of {} are in {}", config.name, config.engine);
        return Err(Failure::usage(message).advise("leave --move-task out"));
    }
    #[cfg(feature = "aws")]
    return super::move_task::run(request, &config, context);
    #[cfg(not(feature = "aws"))]
    Err(Failure::new(Exit::CONFIG, "this build has no AWS support").advise("build it with `--features aws`"))
}
