//! `pipeline concurrency`: how many jobs of a stage may run at a time.

use serde_json::{Value, json};
use tollway_pipeline::{StageChange, StageConfig, StageCounts, StageSettings, State};

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
        let change = StageChange { concurrency: Some(concurrency), ..StageChange::default() };
        session.wait(session.engine.set_stage(&stage, change, session.now()))?;
    }
    show(arguments.stage.as_deref(), &session)
}

/// The stage, or all.
fn show(only: Option<&str>, session: &Session<'_>) -> Result<Exit, Failure> {
    let settings = session.wait(session.engine.stages())?;
    let counts = session.wait(session.engine.counts())?;
    let shown =
        session.config.stages.iter().filter(|stage| only.is_none_or(|only| stage.name.as_str() == only));
    let rows: Vec<Row<'_>> = shown.map(|stage| Row::new(stage, &settings, &counts)).collect();
    let output = session.context.output();
    if output.is_json() {
        let stages: Vec<Value> = rows.iter().map(Row::to_json).collect();
        output.json(&json!({ "total": session.config.concurrency, "stages": stages }))?;
        return Ok(Exit::DONE);
    }
    let width = rows.iter().map(|row| row.config.name.as_str().len()).max().unwrap_or(0);
    for row in &rows {
        output.line(row.line(width))?;
    }
    if let (None, Some(total)) = (only, session.config.concurrency) {
        output
            .line(format_args!("at most {} in all stages together, as in the config", count(total.into())))?;
    }
    Ok(Exit::DONE)
}

struct Row<'c> {
    config: &'c StageConfig,
    /// In place of the config.
    set: Option<u32>,
    running: u64,
}

impl<'c> Row<'c> {
    fn new(config: &'c StageConfig, settings: &[StageSettings], counts: &[StageCounts]) -> Self {
        let set =
            settings.iter().find(|stage| stage.stage == config.name).and_then(|stage| stage.concurrency);
        let running = counts.iter().find(|stage| stage.stage == config.name);
        Self { config, set, running: running.map_or(0, |counts| counts.of(State::Running)) }
    }

    fn line(&self, width: usize) -> String {
        let (name, configured) = (self.config.name.as_str(), count(self.config.concurrency.into()));
        let running = count(self.running);
        match self.set {
            Some(set) => format!(
                "{name:<width$}  {running} running, at most {STRONG}{}{STRONG:#}  {FAINT}({configured} in the config){FAINT:#}",
                count(set.into())
            ),
            None => format!(
                "{name:<width$}  {running} running, at most {STRONG}{configured}{STRONG:#}, as in the config"
            ),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "stage": self.config.name.as_str(),
            "running": self.running,
            "concurrency": self.set.unwrap_or(self.config.concurrency),
            "config": self.config.concurrency,
        })
    }
}
