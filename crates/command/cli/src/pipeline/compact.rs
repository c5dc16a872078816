//! `pipeline compact`: rewrites the file of the jobs without the room that purged jobs have left.

use std::path::{Path, PathBuf};

use serde_json::json;
use tollway_pipeline::{Compaction, EngineUrl};

use super::free_space;
use super::session::Which;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::output::GOOD;

/// Rewrite the file of the jobs without the room that forgotten jobs have left
///
/// A running pipeline gives that room back by itself, to all but 4 MiB, if this version made the file. This is for older
/// files, of which it also makes such files, and for the last few MiB. No process may run the pipeline meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline compact
  systemctl stop tollway-pdf && tollway pipeline compact; systemctl start tollway-pdf

It needs as much free space as the jobs use, beside the file and in the folder for temporary files (SQLITE_TMPDIR, TMPDIR or
/var/tmp). If it is stopped, the file stays as it was.
Exits with 0; with 75 if a process runs the pipeline; with 69 if there is too little space; with 2 for jobs that are not in
a SQLite file.")]
pub(crate) struct Arguments {}

pub(super) fn run(_: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    let file = match &config.engine {
        EngineUrl::Sqlite(file) => file,
        EngineUrl::Postgres(url) => {
            return Err(Failure::usage(format!(
                "these jobs are in Postgres ({url}), which has its own tools"
            ))
            .advise("its autovacuum makes room for new jobs; VACUUM FULL gives the disk back"));
        }
        EngineUrl::Sqs(url) => {
            return Err(Failure::usage(format!(
                "these jobs are in AWS ({url}): there is no file to rewrite"
            ))
            .advise("DynamoDB deletes what was purged"));
        }
    };
    if !file.exists() {
        return Err(Failure::usage(format!("there are no jobs: {} does not exist", file.display())));
    }
    let compaction = Compaction::open(file)?;
    let before = compaction.bytes();
    refuse_without_room(file, compaction.used_bytes()?)?;
    let begun_at = context.now();
    compaction.run()?;
    let (after, took) = (compaction.bytes(), context.now().since(begun_at));
    let output = context.output();
    let path = file.display();
    if output.is_json() {
        let seconds = took.as_micros() as f64 / 1e6;
        output.json(&json!({
            "file": path.to_string(), "bytes_before": before, "bytes": after, "seconds": seconds,
        }))?;
        return Ok(Exit::DONE);
    }
    let (before, after, took) = (humanize::bytes(before), humanize::bytes(after), humanize::span(took));
    output.line(format_args!("{GOOD}compacted{GOOD:#} {path}: {before} before, {after} now, in {took}"))?;
    Ok(Exit::DONE)
}

/// The log beside the file and the temporary copy both grow to what is used.
fn refuse_without_room(file: &Path, used: u64) -> Result<(), Failure> {
    let temporary = temporary_folder();
    let rooms =
        [(free_space::beside(file), "beside it"), (free_space::within(&temporary), "for temporary files")];
    for (free, place) in rooms {
        if let Some(free) = free.filter(|free| *free < used) {
            let (used, free) = (humanize::bytes(used), humanize::bytes(free));
            let message =
                format!("{} cannot be rewritten: {used} are needed {place}, {free} are free", file.display());
            return Err(Failure::new(Exit::STORE, message).advise(format!(
                "make room, or name another folder for temporary files than {}: SQLITE_TMPDIR=FOLDER",
                temporary.display()
            )));
        }
    }
    Ok(())
}

/// Where SQLite puts temporary files: the first of these folders that is there.
fn temporary_folder() -> PathBuf {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let usual = ["/var/tmp", "/usr/tmp", "/tmp"].into_iter().map(PathBuf::from);
    named.chain(usual).find(|folder| folder.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}
