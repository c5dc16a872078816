//! `tollway pipeline`: jobs in stages, behind a vendor's quota.
//!
//! `session` finds the pipeline and its jobs. What they are like and what operators do to them is read from
//! `tollway_pipeline::view`; here are arguments, text and exit codes. One file or folder per subcommand.

mod backup;
mod cancel;
mod change;
mod compact;
mod concurrency;
mod dead;
mod drain;
mod enqueue;
mod filter;
mod free_space;
mod interrupt;
mod job_text;
mod json_text;
mod lambda;
mod lines_out;
mod migrate;
mod move_stage;
mod pause;
mod plan;
mod prioritize;
mod progress_table;
mod progress_text;
mod results;
mod run;
mod session;
mod stage_names;
mod status;
mod unit;
mod watch;
mod why;
mod width;

use crate::context::Context;
use crate::failure::{Exit, Failure};
pub(crate) use run::unshare;
use session::Which;
use tollway_pipeline::EngineOpener;

/// Opens every engine that this build has.
pub(crate) fn engine_opener() -> EngineOpener {
    let opener = EngineOpener::default();
    #[cfg(feature = "aws")]
    let opener = opener.with_sqs(tollway_sqs::open);
    opener
}

const EXAMPLES: &str = "\
Examples:
  tollway pipeline plan --items 1M                 how long it will take
  tollway pipeline enqueue chunks.jsonl            add jobs
  tollway pipeline run                             work on them
  tollway pipeline status                          how far every stage is
  tollway pipeline why uploads/1.pdf               why a job does not run
  tollway pipeline dead list --group-by error      what went wrong

Pipelines are sections [pipelines.NAME] of the config. The page docs/guide/pipeline.md explains them.";

/// Work through a backlog of jobs, stage by stage, within a vendor's quota
///
/// Jobs are kept in a SQLite file or in Postgres and survive every crash. A job is claimed only when its call fits the
/// quota, so waiting uses no try. Every command also works while the pipeline runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Plan(plan::Arguments),
    Enqueue(enqueue::Arguments),
    Run(run::Arguments),
    Lambda(lambda::Arguments),
    Status(status::Arguments),
    Why(why::Arguments),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Drain(drain::Arguments),
    Concurrency(concurrency::Arguments),
    Dead(dead::Arguments),
    Cancel(cancel::Arguments),
    #[command(alias = "reprioritise", alias = "reprioritize", alias = "prioritise")]
    Prioritize(prioritize::Arguments),
    Results(results::Arguments),
    Backup(backup::Arguments),
    Move(move_stage::Arguments),
    Compact(compact::Arguments),
    Migrate(migrate::Arguments),
    Unit(unit::Arguments),
}

impl Arguments {
    /// Whether this is a process that works on the jobs.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.command, Command::Run(_) | Command::Lambda(_))
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let which = &arguments.which;
    match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, which, context),
        Command::Enqueue(arguments) => enqueue::run(arguments, which, context),
        Command::Run(arguments) => run::run(arguments, which, context),
        Command::Lambda(arguments) => lambda::run(arguments, which, context),
        Command::Status(arguments) => status::run(arguments, which, context),
        Command::Why(arguments) => why::run(arguments, which, context),
        Command::Pause(arguments) => pause::pause(arguments, which, context),
        Command::Resume(arguments) => pause::resume(arguments, which, context),
        Command::Drain(arguments) => drain::run(arguments, which, context),
        Command::Concurrency(arguments) => concurrency::run(arguments, which, context),
        Command::Dead(arguments) => dead::run(arguments, which, context),
        Command::Cancel(arguments) => cancel::run(arguments, which, context),
        Command::Prioritize(arguments) => prioritize::run(arguments, which, context),
        Command::Results(arguments) => results::run(arguments, which, context),
        Command::Backup(arguments) => backup::run(arguments, which, context),
        Command::Move(arguments) => move_stage::run(arguments, which, context),
        Command::Compact(arguments) => compact::run(arguments, which, context),
        Command::Migrate(arguments) => migrate::run(arguments, which, context),
        Command::Unit(arguments) => unit::run(arguments, which, context),
    }
}
