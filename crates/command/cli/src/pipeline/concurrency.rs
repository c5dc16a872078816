//! `pipeline concurrency`: how many jobs of a stage may run at a time.

use serde_json::json;
use tollway_pipeline::view::{ConcurrencyView, StageConcurrency, set_concurrency};

use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::count;
use crate::output::{FAINT, STRONG};

/// The most that a stage can have, as in the config.
const MOST: u32 = 100_000;

/// Show or change how many jobs of a stage may run at a time, while it runs
///
/// A change applies at once, on every machine, and lasts until `concurrency STAGE config`. Jobs that run are not stopped. The
/// limit for all stages together is `concurrency` of the pipeline in the config, which a running pipeline reads again when
/// the file changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline concurrency                     show all stages
  tollway pipeline concurrency extract 80
  tollway pipeline concurrency extract config      follow the config again")]
pub(crate) struct Arguments {
    /// The stage to change
    #[arg(requires = "jobs")]
    stage: Option<String>,
    /// How many jobs, or `config` to follow the config again
    #[arg(value_name = "N|config", value_parser = read_jobs)]
    jobs: Option<Jobs>,
}

/// How many jobs may run.
#[derive(Clone, Copy, Debug)]
enum Jobs {
    AsInConfig,
    AtMost(u32),
}

fn read_jobs(text: &str) -> Result<Jobs, String> {
    match (text, text.parse()) {
        ("config", _) => Ok(Jobs::AsInConfig),
        (_, Ok(jobs @ 1..=MOST)) => Ok(Jobs::AtMost(jobs)),
        (_, Ok(0)) => Err("with 0 no job would run; use `tollway pipeline pause STAGE`".to_owned()),
        _ => Err(format!("a whole number from 1 to {}, or `config`", count(MOST.into()))),
    }
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, true)?;
    if let (Some(stage), Some(jobs)) = (&arguments.stage, arguments.jobs) {
        let stage = session.stage(stage)?;
        let concurrency = match jobs {
            Jobs::AsInConfig => None,
            Jobs::AtMost(jobs) => Some(jobs),
        };
        session.wait(set_concurrency(&*session.engine, &stage, concurrency, session.now()))?;
    }
    show(arguments.stage.as_deref(), &session)
}

/// The stage, or all.
fn show(only: Option<&str>, session: &Session<'_>) -> Result<Exit, Failure> {
    let mut view = session.wait(ConcurrencyView::read(&*session.engine, &session.config))?;
    view.stages.retain(|row| only.is_none_or(|only| row.stage.as_str() == only));
    let output = session.context.output();
    if output.is_json() {
        output.json(&json!(view))?;
        return Ok(Exit::DONE);
    }
    let width = view.stages.iter().map(|row| row.stage.as_str().len()).max().unwrap_or(0);
    for row in &view.stages {
        output.line(line(row, width))?;
    }
    if let (None, Some(total)) = (only, view.total) {
        output
            .line(format_args!("at most {} in all stages together, as in the config", count(total.into())))?;
    }
    Ok(Exit::DONE)
}

fn line(row: &StageConcurrency, width: usize) -> String {
    let (name, configured) = (row.stage.as_str(), count(row.config.into()));
    let running = count(row.running);
    match row.is_set {
        true => format!(
            "{name:<width$}  {running} running, at most {STRONG}{}{STRONG:#}  {FAINT}({configured} in the config){FAINT:#}",
            count(row.concurrency.into())
        ),
        false => format!(
            "{name:<width$}  {running} running, at most {STRONG}{configured}{STRONG:#}, as in the config"
        ),
    }
}
