//! `pipeline move`: jobs of one stage become jobs of another.

use std::sync::Arc;

use serde_json::json;
use tollway::core::Name;
use tollway_pipeline::view::{known_stage, shell_word, stage_of};
use tollway_pipeline::{Engine, JobId, PipelineConfig, StageCounts, State, bounds};

use super::interrupt::Interrupt;
use super::session::{Which, runtime};
use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{count, counted};
use crate::layout::printable_name;
use crate::output::{GOOD, Output, WARN};
use crate::pipeline::engine_opener;

/// The most keys that are named; the others are counted.
const KEYS_SHOWN_MAX: usize = 20;

/// Move the waiting and dead jobs of a stage to another stage
///
/// For a stage that was renamed or removed: its jobs keep key, group, priority, cost, delay, used tries and evidence, and
/// dead letters stay dead. Running jobs come to their end where they are. Works while the pipeline runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline move --from autotag --to tag --dry-run
  tollway pipeline move --from autotag --to tag    after `autotag` was renamed in the config

A key that the new stage knows already stays in the old one, and is named.

Exits with 0; with 65 if keys stay; with 75 if jobs still run in the old stage: run it again when they have ended;
with 130 after Ctrl-C, and then the same command goes on.")]
pub(crate) struct Arguments {
    /// The stage that has the jobs, in the config or not
    #[arg(long, value_name = "STAGE")]
    from: String,
    /// The stage that gets them
    #[arg(long, value_name = "STAGE", add = complete_names::stages())]
    to: String,
    /// Move nothing, and say how many jobs it would be
    #[arg(long)]
    dry_run: bool,
}

/// What was moved.
#[derive(Default)]
struct Moved {
    jobs: u64,
    /// How many keys the new stage knew.
    known: u64,
    /// The first of them.
    keys: Vec<String>,
    running: u64,
    interrupted: Option<Exit>,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    let to = stage_of(&config, &arguments.to)?;
    runtime()?.block_on(async {
        let engine = engine_opener().open_for_command(&config.engine, false).await?;
        let from = known_stage(&config, &*engine, &arguments.from).await?;
        let before = counts_of(&*engine, &from).await?;
        if arguments.dry_run {
            return print_dry(&before, &to, context.output());
        }
        let moved = move_all(&config, engine, &from, &to, context).await?;
        moved.print(&from, &to, which, context.output())
    })
}

async fn counts_of(engine: &dyn Engine, stage: &Name) -> Result<StageCounts, Failure> {
    let found = engine.counts().await?.into_iter().find(|counts| counts.stage == *stage);
    Ok(found.unwrap_or_else(|| StageCounts::empty(stage.clone())))
}

/// Moves in steps, so that workers get their turn between them.
async fn move_all(
    config: &PipelineConfig,
    engine: Arc<dyn Engine>,
    from: &Name,
    to: &Name,
    context: &Context,
) -> Result<Moved, Failure> {
    let mut interrupt = Interrupt::listen()?;
    let (mut moved, mut after): (Moved, Option<JobId>) = (Moved::default(), None);
    loop {
        // Claims that have expired end.
        engine.peek(from, context.now()).await?;
        let step = engine.move_to_stage(from, to, after, bounds::PAGE_MAX, context.now()).await;
        let step = step.map_err(|error| moved.failed(error.into(), config))?;
        moved.jobs += step.jobs;
        moved.known += step.known.len() as u64;
        let room = KEYS_SHOWN_MAX.saturating_sub(moved.keys.len());
        moved.keys.extend(step.known.into_iter().take(room));
        after = step.next;
        if after.is_none() {
            moved.running = counts_of(&*engine, from).await?.of(State::Running);
            return Ok(moved);
        }
        if let Some(exit) = interrupt.came().await {
            moved.interrupted = Some(exit);
            return Ok(moved);
        }
    }
}

fn print_dry(counts: &StageCounts, to: &Name, output: &Output) -> Result<Exit, Failure> {
    let states = [State::Ready, State::Delayed, State::Held, State::Dead];
    let jobs: u64 = states.iter().map(|state| counts.of(*state)).sum();
    let (from, running) = (&counts.stage, counts.of(State::Running));
    if output.is_json() {
        output.json(&json!({
            "from": from.as_str(), "to": to.as_str(), "dry_run": true, "jobs": jobs, "running": running,
        }))?;
        return Ok(Exit::DONE);
    }
    let found = states.iter().filter(|state| counts.of(**state) > 0);
    let found: Vec<String> = found.map(|state| format!("{} {state}", count(counts.of(*state)))).collect();
    let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
    output.line(format_args!("would move {} from {from} to {to}{found}", counted(jobs, "jobs")))?;
    if running > 0 {
        output.line(format_args!("{} still running there would not move", counted(running, "jobs")))?;
    }
    Ok(Exit::DONE)
}

impl Moved {
    /// A failure in between, with what was done.
    fn failed(&self, failure: Failure, config: &PipelineConfig) -> Failure {
        let jobs = counted(self.jobs, "jobs");
        Failure::new(failure.exit(), format!("{}; {jobs} moved so far", failure.message()))
            .advise(format_args!("run the same command again: it goes on; the jobs are in {}", config.engine))
    }

    fn exit(&self) -> Exit {
        match (self.interrupted, self.known, self.running) {
            (Some(exit), ..) => exit,
            (None, 1.., _) => Exit::DATA,
            (None, 0, 1..) => Exit::DENIED,
            (None, 0, 0) => Exit::DONE,
        }
    }

    fn print(&self, from: &Name, to: &Name, which: &Which, output: &Output) -> Result<Exit, Failure> {
        let Self { jobs, known, keys, running, interrupted } = self;
        if output.is_json() {
            output.json(&json!({
                "from": from.as_str(), "to": to.as_str(), "dry_run": false, "moved": jobs, "known": known,
                "known_keys": keys, "running": running, "interrupted": interrupted.is_some(),
            }))?;
            return Ok(self.exit());
        }
        output.line(format_args!("{GOOD}moved {}{GOOD:#} from {from} to {to}", counted(*jobs, "jobs")))?;
        if *known > 0 {
            let stay = counted(*known, "keys");
            output.line(format_args!("{WARN}{stay} that {to} knows already{WARN:#} stay in {from}:"))?;
            keys.iter().try_for_each(|key| output.line(format_args!("  {}", printable_name(key))))?;
            if *known > keys.len() as u64 {
                output.line(format_args!("  and {} more", count(*known - keys.len() as u64)))?;
            }
            let cancel = which.command(&format!("cancel --stage {}", shell_word(from.as_str())));
            output.note(format_args!("  if they are not needed: {cancel}"));
        }
        if *running > 0 {
            output.note(format_args!(
                "{} still running in {from}: run it again when they have ended",
                counted(*running, "jobs")
            ));
        }
        if interrupted.is_some() {
            output.note("interrupted: run the same command again; it goes on with the rest");
        }
        Ok(self.exit())
    }
}
