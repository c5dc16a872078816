//! One job: found by its number or key, and as text and JSON.

use serde::Serialize;
use serde_json::value::RawValue;
use tollway_pipeline::source::ExportedAttempt;
use tollway_pipeline::{Administration, Evidence, Filter, Job, JobId, StageConfig, State};

use super::session::{Session, Which};
use crate::failure::{Exit, Failure};
use crate::humanize::{self, counted};
use crate::layout::{COLUMNS, printable, printable_lines, printable_name, wrap};
use crate::output::{FAINT, Output};

/// Where values begin.
const VALUES_AT: usize = 10;

/// The most jobs of one key that are shown: a key can be in every stage.
const FOUND_MAX: usize = 20;

/// The job of this number, or else all with this key.
pub(super) fn find(session: &Session<'_>, id_or_key: &str) -> Result<Vec<Job>, Failure> {
    session.wait(find_in(&*session.engine, id_or_key))
}

/// The same without a session.
pub(super) async fn find_in(engine: &dyn Administration, id_or_key: &str) -> Result<Vec<Job>, Failure> {
    if let Ok(id) = id_or_key.parse() {
        let filter = Filter { job: Some(JobId::new(id)), ..Filter::default() };
        let found = engine.scan(filter, None, 1).await?.items;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let filter = Filter { key: Some(id_or_key.to_owned()), ..Filter::default() };
    let found = engine.scan(filter, None, FOUND_MAX).await?.items;
    if found.is_empty() {
        let message = format!("there is no job with the number or key {id_or_key:?}");
        return Err(Failure::not_found(message)
            .advise("done jobs are forgotten after their stage's retention; is it another pipeline's?"));
    }
    Ok(found)
}

/// `ready in extract, done in autotag`.
pub(super) fn states_of(jobs: &[Job]) -> String {
    let one = |job: &Job| format!("{} in {}", job.state, job.stage);
    jobs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The only one of these jobs that is a dead letter.
pub(super) fn only_dead(mut found: Vec<Job>, id_or_key: &str) -> Result<Job, Failure> {
    let states = states_of(&found);
    found.retain(|job| job.state == State::Dead);
    match (found.pop(), found.is_empty()) {
        (Some(job), true) => Ok(job),
        (Some(_), false) => Err(Failure::usage(format!("several dead letters have the key {id_or_key:?}"))
            .advise("give the number; `tollway pipeline dead list --key KEY` shows it")),
        (None, _) => Err(Failure::new(Exit::FAILED, format!("{id_or_key:?} is no dead letter: {states}"))
            .advise("`tollway pipeline why` explains a job in any state")),
    }
}

/// A command for the user to type, for the same pipeline.
pub(super) fn command(which: &Which, rest: &str) -> String {
    match &which.pipeline {
        Some(name) => format!("tollway pipeline -p {name} {rest}"),
        None => format!("tollway pipeline {rest}"),
    }
}

/// A text as one word of a shell, without control characters.
pub(super) fn shell_word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    match !text.is_empty() && text.chars().all(safe) {
        true => text.to_owned(),
        false => format!("'{}'", printable_name(text).replace('\'', "'\\''")),
    }
}

/// A job, as it appears in JSON.
#[derive(Serialize)]
pub(super) struct JobJson<'j> {
    id: u64,
    key: &'j str,
    stage: &'j str,
    group: Option<&'j str>,
    state: &'static str,
    priority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Box<RawValue>>,
    failures: u32,
    crashes: u32,
    rate_limited: u32,
    claims: u64,
    error: &'j str,
    created_at: String,
    changed_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<ExportedAttempt<'j>>>,
}

impl<'j> JobJson<'j> {
    /// Without its data.
    pub(super) fn new(job: &'j Job) -> Self {
        Self {
            id: job.id.get(),
            key: &job.key,
            stage: job.stage.as_str(),
            group: job.group.as_deref(),
            state: job.state.as_str(),
            priority: job.priority,
            cost: raw(job.cost.as_str()),
            failures: job.failures,
            crashes: job.crashes,
            rate_limited: job.rate_limited,
            claims: job.claim_number,
            error: &job.error,
            created_at: job.created_at.to_string(),
            changed_at: job.changed_at.to_string(),
            data: None,
            attempts: None,
        }
    }

    /// With its data and attempts.
    pub(super) fn in_full(job: &'j Job, evidence: &'j [Evidence]) -> Self {
        let attempts = Some(evidence.iter().map(ExportedAttempt::new).collect());
        Self { data: raw(&job.data), attempts, ..Self::new(job) }
    }
}

/// JSON as it is, on one line. None: it is empty.
pub(super) fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.replace(['\n', '\r'], " ")).ok()
}

/// A line with a name and a value, which may continue on further lines.
pub(super) fn field(output: &Output, name: &str, value: &str) -> Result<(), Failure> {
    for (number, line) in wrap(value, COLUMNS - VALUES_AT - 2).iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        output.line(format_args!("  {FAINT}{name:VALUES_AT$}{FAINT:#}{line}"))?;
    }
    Ok(())
}

/// What was tried, out of what is allowed: `2 of 3 failed, 1 of 3 crashed`.
pub(super) fn tries(job: &Job, stage: Option<&StageConfig>) -> String {
    let of = |n: u32, most: Option<u32>, what: &str| match (n, most) {
        (0, _) => None,
        (n, Some(most)) => Some(format!("{n} of {most} {what}")),
        (n, None) => Some(format!("{n} {what}")),
    };
    let parts = [
        of(job.failures, stage.map(|stage| stage.tries), "failed"),
        of(job.crashes, stage.map(|stage| stage.crashes), "crashed"),
        of(job.rate_limited, None, "refused for the rate"),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none has failed".to_owned() } else { text }
}

/// Every attempt that is kept; with its details if wanted.
pub(super) fn write_attempts(
    evidence: &[Evidence],
    details: bool,
    now: tollway::Timestamp,
    output: &Output,
) -> Result<(), Failure> {
    for one in evidence {
        let (at, took) = (humanize::moment(one.started_at, now), one.ended_at.since(one.started_at));
        let (cause, took) = (one.attempt.cause().as_str().replace('_', "-"), humanize::span(took));
        let worker = printable_name(&one.worker);
        output
            .line(format_args!("  {}  {at}  {cause} after {took}, {FAINT}{worker}{FAINT:#}", one.number))?;
        for line in wrap(&printable(one.attempt.error()), COLUMNS - 5) {
            output.line(format_args!("     {line}"))?;
        }
        if details {
            for line in printable_lines(one.attempt.details()) {
                output.line(format_args!("     {FAINT}| {line}{FAINT:#}"))?;
            }
        }
    }
    if evidence.len() >= tollway_pipeline::bounds::EVIDENCE_MAX {
        let kept = counted(evidence.len() as u64, "attempts");
        output.line(format_args!("  {FAINT}the newest {kept} are kept{FAINT:#}"))?;
    }
    Ok(())
}
