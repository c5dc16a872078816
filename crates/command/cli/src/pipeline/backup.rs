//! `pipeline backup`: a copy of all jobs, while the pipeline runs.

use std::path::PathBuf;

use serde_json::json;
use tollway_pipeline::EngineUrl;

use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::output::GOOD;
use crate::stopwatch::Stopwatch;

/// Copy all jobs to a file, while the pipeline runs
///
/// The copy is of one moment, and appears when it is complete. It is a SQLite file like the original: to restore it, stop the
/// pipeline and put it in the place of the file that `engine` names. Jobs that ran at that moment are tried again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline backup pdf-$(date +%F).db
  0 3 * * *  cd /srv/pdf && tollway -q pipeline backup backups/$(date +\\%F).db

Jobs in Postgres are backed up with its server, for example with pg_dump; jobs in SQS cannot be copied.
Exits with 0; with 2 if the file exists already.")]
pub(crate) struct Arguments {
    /// The new file; it must not exist
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    if let EngineUrl::Postgres(url) = &config.engine {
        return Err(Failure::usage(format!("these jobs are in Postgres ({url}), whose own tools back them up")).advise(
            "pg_dump --format=custom --schema=tollway_pipeline DATABASE > jobs.dump (or the `schema` of your URL)",
        ));
    }
    if let EngineUrl::Sqs(url) = &config.engine {
        return Err(Failure::usage(format!("these jobs are in AWS ({url}), which keeps copies itself"))
            .advise(
                "turn on point-in-time recovery of the ledger's table; messages of SQS cannot be copied",
            ));
    }
    let session = Session::open(which, context, false)?;
    let stopwatch = Stopwatch::start();
    session.wait(session.engine.backup(&arguments.file))?;
    let took = stopwatch.elapsed();
    let bytes = std::fs::metadata(&arguments.file)?.len();
    let output = context.output();
    let path = arguments.file.display();
    if output.is_json() {
        let seconds = took.as_micros() as f64 / 1e6;
        output.json(&json!({ "file": path.to_string(), "bytes": bytes, "seconds": seconds }))?;
        return Ok(Exit::DONE);
    }
    let (bytes, took) = (humanize::bytes(bytes), humanize::span(took));
    output.line(format_args!("{GOOD}copied{GOOD:#} all jobs to {path}: {bytes}, in {took}"))?;
    Ok(Exit::DONE)
}
