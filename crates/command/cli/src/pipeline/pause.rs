//! `pipeline pause` and `pipeline resume`.

use serde_json::json;
use tollway::core::Name;
use tollway_pipeline::view::{PausedStage, set_paused};

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
    let stages = session.wait(set_paused(&*session.engine, &stages, paused, session.now()))?;
    let output = session.context.output();
    if output.is_json() {
        output.json(&json!({ "stages": stages }))?;
        return Ok(Exit::DONE);
    }
    for stage in &stages {
        output.line(line(stage))?;
    }
    Ok(Exit::DONE)
}

/// The stages of these names, or all.
fn named(stages: &[String], session: &Session<'_>) -> Result<Vec<Name>, Failure> {
    match stages {
        [] => Ok(session.config.stage_names()),
        names => names.iter().map(|name| session.stage(name)).collect(),
    }
}

fn line(stage: &PausedStage) -> String {
    let (name, ready) = (&stage.stage, counted(stage.ready, "jobs"));
    match (stage.paused, stage.running) {
        (false, _) => format!("{GOOD}{name} goes on{GOOD:#}: {ready} ready"),
        (true, 0) => format!("{WARN}{name} is paused{WARN:#}: {ready} ready, none runs"),
        (true, running) => {
            let running = counted(running, "jobs");
            format!("{WARN}{name} is paused{WARN:#}: {ready} ready, {running} still to end")
        }
    }
}
