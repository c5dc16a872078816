//! Runs the checker, which shares no code with the pipeline.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollway_pipeline::Filter;
use tollway_pipeline::bounds::PAGE_MAX;

use crate::child::open;
use crate::lab::{Jobs, Lab};
use crate::stage;

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
    if let Jobs::Sqs { around, .. } = &lab.jobs {
        std::fs::write(lab.path("jobs.json"), export(around).to_string()).unwrap();
    }
    check_folder(&lab.path(""), limit, finished)
}

/// What the engine on SQS has counted.
pub(crate) fn export_events(lab: &Lab) -> String {
    let Jobs::Sqs { around, .. } = &lab.jobs else { return String::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let counts = open(around).counts().await.unwrap();
        let events = counts.iter().map(|counts| format!("{} {:?}", counts.stage.as_str(), counts.events));
        events.collect::<Vec<_>>().join("; ")
    })
}

/// The same rows, out of the ledger of an engine on SQS.
fn export(url: &str) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = open(url);
        let (mut jobs, mut completions) = (Vec::new(), Vec::new());
        let mut after = None;
        loop {
            let page = engine.scan(Filter::default(), after, PAGE_MAX).await.unwrap();
            jobs.extend(page.items.iter().map(|job| {
                json!([job.id, job.stage, job.key, job.state.number(), job.claim_number, job.data])
            }));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for name in ["a", "b"] {
            let mut after = None;
            loop {
                let page = engine.results(&stage(name), after, PAGE_MAX).await.unwrap();
                completions
                    .extend(page.items.iter().map(|done| json!([done.job, done.number, done.outputs])));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        json!({ "jobs": jobs, "completions": completions })
    })
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
