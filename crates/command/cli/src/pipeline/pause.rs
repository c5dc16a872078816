//! `pipeline pause` and `pipeline resume`.

use serde_json::{Value, json};
use tollway::core::Name;
use tollway_pipeline::{StageChange, StageCounts, State};

use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::counted;
use crate::output::{GOOD, WARN};

/// Stop claiming jobs of some stages, or of all
///
/// Jobs that run go on to their end, and jobs still arrive. It lasts until `resume`, also over restarts, and for every
/// machine. To wait until no job runs, use `drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline pause                           all stages
  tollway pipeline pause extract                   one; the others go on")]
pub(crate) struct Pause {
    /// The stages [default: all]
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
}

/// Claim jobs again, of some stages or of all
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline resume                          all stages
  tollway pipeline resume extract                  one")]
pub(crate) struct Resume {
    /// The stages [default: all]
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
}

pub(super) fn pause(arguments: &Pause, which: &Which, context: &Context) -> Result<Exit, Failure> {
    set(&arguments.stages, true, which, context)
}

pub(super) fn resume(arguments: &Resume, which: &Which, context: &Context) -> Result<Exit, Failure> {
    set(&arguments.stages, false, which, context)
}

fn set(stages: &[String], paused: bool, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, true)?;
    let stages = named(stages, &session)?;
    for stage in &stages {
        let change = StageChange { paused: Some(paused), ..StageChange::default() };
        session.wait(session.engine.set_stage(stage, change, session.now()))?;
    }
    let counts = session.wait(session.engine.counts())?;
    let of = |stage: &Name| {
        let found = counts.iter().find(|counts| counts.stage == *stage);
        found.cloned().unwrap_or_else(|| StageCounts::empty(stage.clone()))
    };
    let output = context.output();
    if output.is_json() {
        let stages: Vec<Value> = stages.iter().map(|stage| stage_json(&of(stage), paused)).collect();
        output.json(&json!({ "stages": stages }))?;
        return Ok(Exit::DONE);
    }
    for stage in &stages {
        output.line(line(&of(stage), paused))?;
    }
    Ok(Exit::DONE)
}

/// The stages of these names, or all.
fn named(stages: &[String], session: &Session<'_>) -> Result<Vec<Name>, Failure> {
    match stages {
        [] => Ok(session.config.stages.iter().map(|stage| stage.name.clone()).collect()),
        names => names.iter().map(|name| session.stage(name)).collect(),
    }
}

fn line(counts: &StageCounts, paused: bool) -> String {
    let (name, ready) = (&counts.stage, counted(counts.of(State::Ready), "jobs"));
    match (paused, counts.of(State::Running)) {
        (false, _) => format!("{GOOD}{name} goes on{GOOD:#}: {ready} ready"),
        (true, 0) => format!("{WARN}{name} is paused{WARN:#}: {ready} ready, none runs"),
        (true, running) => {
            let running = counted(running, "jobs");
            format!("{WARN}{name} is paused{WARN:#}: {ready} ready, {running} still to end")
        }
    }
}

fn stage_json(counts: &StageCounts, paused: bool) -> Value {
    json!({
        "stage": counts.stage.as_str(),
        "paused": paused,
        "ready": counts.of(State::Ready),
        "running": counts.of(State::Running),
    })
}
