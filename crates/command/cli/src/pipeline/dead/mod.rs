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

use tollway_pipeline::{Job, view};

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
    session.wait(view::find_dead(&*session.engine, id_or_key))
}

/// Which dead letter.
#[derive(Debug, clap::Args)]
struct JobArguments {
    /// The dead letter's number, or its key
    #[arg(value_name = "ID|KEY", required_unless_present = "id")]
    job: Option<String>,
    /// The dead letter's number, as in `dead redrive --id`
    #[arg(long, value_name = "N", conflicts_with = "job")]
    id: Option<u64>,
}

impl JobArguments {
    fn id_or_key(&self) -> String {
        self.id.map(|id| id.to_string()).or_else(|| self.job.clone()).unwrap_or_default()
    }
}
