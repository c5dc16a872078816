//! `pipeline results`: what done jobs resulted in, as lines of JSON.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use tollway::core::Name;
use tollway_pipeline::view::one_line;
use tollway_pipeline::{JobResult, bounds};

use super::lines_out::LinesOut;
use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::counted;

/// Write what done jobs resulted in as JSON, one a line
///
/// A handler gives a result with `done`; without one it is null. Results are kept for their stage's retention.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline results > results.jsonl         of the last stage
  tollway pipeline results --stage autotag --output autotag.jsonl
  tollway pipeline results | jq -r 'select(.result.pages > 100) | .key'

Each line has: id, key, group, finished_at, stage, outputs (how many jobs it handed on), result.")]
pub(crate) struct Arguments {
    /// The stage [default: the last]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// Write to this file, which appears when it is complete [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// One JSON object a line, which is the only format
    #[arg(long)]
    jsonl: bool,
}

/// A line.
#[derive(Serialize)]
struct Line<'r> {
    id: u64,
    key: &'r str,
    group: Option<&'r str>,
    finished_at: String,
    stage: &'r str,
    outputs: u64,
    result: Option<Box<RawValue>>,
}

impl<'r> Line<'r> {
    fn new(result: &'r JobResult, stage: &'r Name) -> Self {
        Self {
            id: result.job.get(),
            key: &result.key,
            group: result.group.as_deref(),
            finished_at: result.finished_at.to_string(),
            stage: stage.as_str(),
            outputs: result.outputs,
            result: result.result.as_deref().and_then(one_line),
        }
    }
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let stage = match (&arguments.stage, session.config.stages.last()) {
        (Some(name), _) => session.stage(name)?,
        (None, Some(last)) => last.name.clone(),
        (None, None) => return Err(Failure::new(Exit::CONFIG, "the pipeline has no stages")),
    };
    let mut lines = LinesOut::new(arguments.output.as_deref(), context.output())?;
    let mut after = None;
    'pages: loop {
        let page = session.wait(session.engine.results(&stage, after, bounds::PAGE_MAX))?;
        for result in &page.items {
            let line = serde_json::to_string(&Line::new(result, &stage)).map_err(std::io::Error::from)?;
            if !lines.line(&line)? {
                break 'pages;
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let results = format!("{} of stage {stage}", counted(lines.lines, "results"));
    if arguments.output.is_none() {
        context.output().note(&results);
    }
    lines.finish(&results)?;
    Ok(Exit::DONE)
}
