//! `pipeline dead`: jobs whose tries are used up. They wait for an operator.

mod drop;
mod edit;
mod editor;
mod export;
mod grouped;
mod list;
#[cfg(feature = "aws")]
mod move_task;
mod redrive;
mod show;

use tollway_pipeline::{Job, State};

use super::job_view::find;
use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  tollway pipeline dead list --group-by error      what went wrong, the most frequent first
  tollway pipeline dead list --error timeout
  tollway pipeline dead show 104                   one, with its data and every attempt
  tollway pipeline dead edit 104                   correct its data
  tollway pipeline dead redrive --error timeout --rate \"100 / minute\"
  tollway pipeline dead export --output dead.jsonl
  tollway pipeline dead drop --group job-123";

/// List, read, correct, retry or drop dead letters
///
/// A job becomes a dead letter when its tries are used up, or its handler says that it is hopeless. It keeps its data and the
/// evidence of its attempts, and holds stages that wait for its group, until it is redriven or dropped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Edit(edit::Arguments),
    Redrive(redrive::Arguments),
    Drop(drop::Arguments),
    Export(export::Arguments),
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments, which, context),
        Command::Show(arguments) => show::run(arguments, which, context),
        Command::Edit(arguments) => edit::run(arguments, which, context),
        Command::Redrive(arguments) => redrive::run(arguments, which, context),
        Command::Drop(arguments) => drop::run(arguments, which, context),
        Command::Export(arguments) => export::run(arguments, which, context),
    }
}

/// The dead letter of this number or key.
fn find_dead(session: &Session<'_>, id_or_key: &str) -> Result<Job, Failure> {
    let mut found = find(session, id_or_key)?;
    let states: Vec<String> = found.iter().map(|job| format!("{} in {}", job.state, job.stage)).collect();
    found.retain(|job| job.state == State::Dead);
    match (found.pop(), found.is_empty()) {
        (Some(job), true) => Ok(job),
        (Some(_), false) => Err(Failure::usage(format!("several dead letters have the key {id_or_key:?}"))
            .advise("give the number; `tollway pipeline dead list --key KEY` shows it")),
        (None, _) => {
            Err(Failure::new(Exit::FAILED, format!("{id_or_key:?} is no dead letter: {}", states.join(", ")))
                .advise("`tollway pipeline why` explains a job in any state"))
        }
    }
}
