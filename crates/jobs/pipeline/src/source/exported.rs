//! Dead letters as lines of JSON, and such lines as jobs again.

use serde::Serialize;
use serde_json::value::RawValue;
use tollway_core::Name;

use super::error::RecordFault;
use super::fields::Fields;
use crate::view::AttemptView;
use crate::{JobCost, MovedJob, NewJob};

/// The field that only exported jobs have.
const SIGN: &str = "dead_letter";

/// A dead letter as one line of JSON. [`Source::read`](super::Source::read) makes the same job of it again.
///
/// ```
/// # use tollway_core::{Name, Timestamp};
/// # use tollway_pipeline::{Job, JobCost, JobId, MovedJob, State};
/// use tollway_pipeline::source::{Source, export};
///
/// # let (stage, now) = (Name::new("extract")?, Timestamp::EPOCH);
/// # let job = Job {
/// #     id: JobId::new(7), stage: stage.clone(), key: "k".to_owned(), group: None, data: "{\"a\":\n1}".to_owned(),
/// #     priority: 0, cost: JobCost::OF_STAGE, state: State::Dead, due_at: now, claim_number: 1, worker: String::new(),
/// #     failures: 1, crashes: 0, rate_limited: 0, error: "HTTP 500".to_owned(), created_at: now, changed_at: now,
/// # };
/// let line = export(&MovedJob { job, evidence: Vec::new() })?;
/// assert!(line.starts_with(r#"{"key":"k","stage":"extract","priority":0,"data":{"a": 1},"dead_letter":{"id":7,"#));
/// let read = Source::new(Name::new("autotag")?).read(&line, now);
/// assert_eq!(read.jobs, [tollway_pipeline::NewJob::new(&stage, "k", r#"{"a": 1}"#)?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export(dead: &MovedJob) -> serde_json::Result<String> {
    let MovedJob { job, evidence } = dead;
    // Within JSON, an end of line is always between two values.
    let data = RawValue::from_string(job.data.replace(['\n', '\r'], " "))?;
    let cost = job.cost.as_str();
    let cost = if cost.is_empty() { None } else { Some(serde_json::from_str(cost)?) };
    serde_json::to_string(&Exported {
        key: &job.key,
        stage: job.stage.as_str(),
        group: job.group.as_deref(),
        priority: job.priority,
        cost,
        data: &data,
        dead_letter: DeadLetter {
            id: job.id.get(),
            error: &job.error,
            failures: job.failures,
            crashes: job.crashes,
            rate_limited: job.rate_limited,
            created_at: job.created_at.to_string(),
            died_at: job.changed_at.to_string(),
            attempts: evidence.iter().map(AttemptView::new).collect(),
        },
    })
}

#[derive(Serialize)]
struct Exported<'a> {
    key: &'a str,
    stage: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    priority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<&'a RawValue>,
    data: &'a RawValue,
    dead_letter: DeadLetter<'a>,
}

#[derive(Serialize)]
struct DeadLetter<'a> {
    id: u64,
    error: &'a str,
    failures: u32,
    crashes: u32,
    rate_limited: u32,
    created_at: String,
    died_at: String,
    attempts: Vec<AttemptView>,
}

/// Whether a record is an exported job.
pub(super) fn is_exported(fields: &Fields<'_>) -> bool {
    [SIGN, "stage", "key", "data"].iter().all(|name| fields.has(name))
}

/// The job that was exported: its own stage, key, group, priority, cost and data.
pub(super) fn exported_job(fields: &Fields<'_>) -> Result<NewJob, RecordFault> {
    let text = |name: &'static str| {
        fields.string(name).ok_or(RecordFault::Field { field: name.to_owned(), wanted: "a string" })
    };
    let wrong_stage =
        |_| RecordFault::Field { field: "stage".to_owned(), wanted: "the name of a stage, such as extract" };
    let stage = Name::new(&text("stage")?).map_err(wrong_stage)?;
    let mut job = NewJob::new(&stage, &text("key")?, fields.json("data").unwrap_or_default())?;
    if let Some(group) = fields.string("group") {
        job = job.group(&group)?;
    }
    if let Some(json) = fields.json("priority") {
        let wanted = "a whole number from -32768 to 32767";
        let wrong = |_| RecordFault::Field { field: "priority".to_owned(), wanted };
        job = job.priority(json.parse().map_err(wrong)?);
    }
    match fields.json("cost") {
        Some(json) => Ok(job.cost(JobCost::parse(json)?)),
        None => Ok(job),
    }
}
