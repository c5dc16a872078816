//! `pipeline migrate`: moves all jobs that are not done to another engine.
//!
//! `engines` opens both, `stages` pauses and prepares them, `transfer` moves jobs, `report` says what was moved.

mod engines;
mod report;
mod stages;
mod transfer;

use tollway::Span;
use tollway::core::read_span;
use tollway_pipeline::EngineUrl;

use super::interrupt::Interrupt;
use super::session::{Which, runtime};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::engine_opener;
use engines::Engines;
use report::{End, MigrationReport};
use transfer::Transfer;

/// Move all jobs that are not done to another engine
///
/// Each job leaves the old engine before it enters the new one, and is marked on the way: no job is lost and none is done
/// twice, also if this command is killed and run again. Priority, cost, delay, used tries, evidence and dead letters move
/// with the jobs. It works while workers run: the stages of the old engine are paused, running jobs come to their end, and
/// what they hand on moves, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline migrate --to postgres://app:secret@db/app --dry-run
  tollway pipeline migrate --to postgres://app:secret@db/app
  tollway pipeline migrate --to sqlite:new.db --timeout 1h

Afterwards, set `engine` in the config to the new URL. The old engine stays paused, with its jobs as cancelled: jobs that
are still enqueued there wait, and the same command moves them. `tollway pipeline resume` goes on with the old one.

Done jobs do not move: a key that was done in the old engine can be enqueued again in the new one.
If stages wait for groups (`after`), the new engine is paused, too, until all jobs have moved. A second run
does not know who paused it: then resume it yourself.

Exits with 0; with 75 if jobs still run after --timeout; with 130 after Ctrl-C. Run it again then.")]
pub(crate) struct Arguments {
    /// The new engine: sqlite:PATH, postgres://... or sqs:?ledger=TABLE
    // Not parsed by clap, whose errors would show a password.
    #[arg(long, value_name = "URL")]
    to: String,
    /// How long to wait for running jobs, e.g. 1h
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = read_span)]
    timeout: Span,
    /// Move nothing, and say how many jobs it would be
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    let runtime = runtime()?;
    let target = EngineUrl::parse(&arguments.to).map_err(|error| Failure::usage(format!("--to: {error}")))?;
    let target = engines::absolute(&target)?.for_pipeline(&config.stages, &config.source);
    engines::refuse_same(&config.engine, &target)?;
    if arguments.dry_run {
        let counts = runtime.block_on(async {
            let engine = engine_opener().open_for_command(&config.engine, false).await?;
            engine.counts().await
        })?;
        return report::print_dry(&counts, &target, context.output());
    }
    let moved = runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        let engines = Engines::open(&config, target, context).await?;
        let mut transfer = Transfer::new(&engines, &config, context).await?;
        let end = transfer.run(arguments.timeout, &mut interrupt).await;
        let report = transfer.report();
        match end {
            Ok(end) => {
                if matches!(end, End::Complete) {
                    engines.resume_target(context).await?;
                }
                Ok((report, end))
            }
            Err(failure) => Err(report.failed(&failure)),
        }
    });
    let (report, end): (MigrationReport, End) = moved?;
    report.print(&end, context.output())
}
