//! Runs the checker, which shares no code with the pipeline.

use std::path::Path;
use std::process::Command;

use crate::lab::{Jobs, Lab};

/// The limit that was to be kept: so many calls in each window of so many microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) calls: u64,
    pub(crate) window: u64,
}

/// More than any pipeline here can call.
pub(crate) const OPEN: Limit = Limit { calls: 10_000, window: 1_000_000 };

/// Checks what a pipeline left behind. `finished`: no job may be open. The error is what the checker found.
pub(crate) fn check(lab: &Lab, limit: Limit, finished: bool) -> Result<String, String> {
    if let Jobs::Postgres(server, schema) = &lab.jobs {
        let rows = server.query(&EXPORT.replace("SCHEMA", schema));
        std::fs::write(lab.path("jobs.json"), rows).unwrap();
    }
    check_folder(&lab.path(""), limit, finished)
}

pub(crate) fn check_folder(folder: &Path, limit: Limit, finished: bool) -> Result<String, String> {
    let mut command = Command::new("python3");
    command.arg("tests/check_jobs.py").arg(folder);
    command.args(["--limit", &limit.calls.to_string(), "--window", &limit.window.to_string()]);
    if finished {
        command.arg("--finished");
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// The same rows as the checker reads from a SQLite file.
const EXPORT: &str = "
    SELECT json_build_object(
        'jobs', (SELECT coalesce(json_agg(json_build_array(j.id, s.name, j.key, j.state, j.claim_number, j.data)), '[]')
                 FROM SCHEMA.jobs j JOIN SCHEMA.stages s ON s.id = j.stage),
        'completions', (SELECT coalesce(json_agg(json_build_array(job, claim_number, outputs)), '[]')
                        FROM SCHEMA.completions))";
