//! `pipeline dead export`: dead letters as lines of JSON.

use std::path::PathBuf;

use tollway_pipeline::source::export;
use tollway_pipeline::view::JobPages;
use tollway_pipeline::{MovedJob, State};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::counted;
use crate::pipeline::filter::FilterArguments;
use crate::pipeline::lines_out::LinesOut;
use crate::pipeline::session::{Session, Which};

/// Write dead letters as JSON, one a line, with their data and every attempt
///
/// The lines can be enqueued again, into this pipeline or another one: `tollway pipeline enqueue dead.jsonl` puts each into its
/// own stage, with its key, group, priority and cost. Here, drop the dead letters and add --again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead export --output dead.jsonl
  tollway pipeline dead export --error timeout | jq -r .key
  tollway pipeline dead export | jq -r .dead_letter.attempts[].error | sort | uniq -c")]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: FilterArguments,
    /// Write to this file, which appears when it is complete [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let engine = &*session.engine;
    let filter = session.wait(arguments.filter.jobs().check(Some(State::Dead), &session.config, engine))?;
    let mut lines = LinesOut::new(arguments.output.as_deref(), context.output())?;
    let mut pages = JobPages::new(filter);
    'pages: while let Some(page) = session.wait(pages.next(engine))? {
        for job in page {
            let evidence = session.wait(engine.evidence(job.id))?;
            let line = export(&MovedJob { job, evidence }).map_err(std::io::Error::from)?;
            if !lines.line(&line)? {
                break 'pages;
            }
        }
    }
    let exported = counted(lines.lines, "dead letters");
    lines.finish(&exported)?;
    Ok(Exit::DONE)
}
