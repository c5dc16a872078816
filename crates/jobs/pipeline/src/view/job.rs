//! A job as data.

use serde::Serialize;
use serde_json::value::RawValue;
use tollway_core::{Name, Timestamp};

use super::text::as_text;
use crate::{Evidence, Job, State};

/// A job, as it appears in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct JobView {
    /// Its number.
    pub id: u64,
    /// Its key.
    pub key: String,
    /// The stage it is in.
    pub stage: Name,
    /// Its group.
    pub group: Option<String>,
    /// Its state.
    #[serde(serialize_with = "as_text")]
    pub state: State,
    /// Higher is claimed first.
    pub priority: i16,
    /// What it takes, if that is not what its stage takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Box<RawValue>>,
    /// Failed attempts since it was enqueued or redriven.
    pub failures: u32,
    /// Crashed ones.
    pub crashes: u32,
    /// Those that the vendor refused for its rate.
    pub rate_limited: u32,
    /// How often it was claimed.
    pub claims: u64,
    /// The last error, or empty.
    pub error: String,
    /// When it was enqueued.
    #[serde(serialize_with = "as_text")]
    pub created_at: Timestamp,
    /// When its state changed.
    #[serde(serialize_with = "as_text")]
    pub changed_at: Timestamp,
    /// Its data, in full views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// Its attempts that are kept, in full views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
}

impl JobView {
    /// Without its data.
    pub fn new(job: &Job) -> Self {
        Self {
            id: job.id.get(),
            key: job.key.clone(),
            stage: job.stage.clone(),
            group: job.group.clone(),
            state: job.state,
            priority: job.priority,
            cost: one_line(job.cost.as_str()),
            failures: job.failures,
            crashes: job.crashes,
            rate_limited: job.rate_limited,
            claims: job.claim_number,
            error: job.error.clone(),
            created_at: job.created_at,
            changed_at: job.changed_at,
            data: None,
            attempts: None,
        }
    }

    /// With its data and attempts.
    pub fn in_full(job: &Job, evidence: &[Evidence]) -> Self {
        let attempts = Some(evidence.iter().map(AttemptView::new).collect());
        Self { data: one_line(&job.data), attempts, ..Self::new(job) }
    }
}

/// JSON as it is, on one line. None: it is empty.
pub fn one_line(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.replace(['\n', '\r'], " ")).ok()
}

/// An attempt that did not finish its job, as it appears in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// The number of its claim.
    pub number: u64,
    /// What is counted: `failure`, `crash` or `rate_limited`.
    pub cause: &'static str,
    /// What happened.
    pub error: String,
    /// More of it, on lines.
    pub detail: String,
    /// Who worked on it.
    pub worker: String,
    /// When it began.
    #[serde(serialize_with = "as_text")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(serialize_with = "as_text")]
    pub ended_at: Timestamp,
}

impl AttemptView {
    /// The attempt of this evidence.
    pub fn new(evidence: &Evidence) -> Self {
        Self {
            number: evidence.number,
            cause: evidence.attempt.cause().as_str(),
            error: evidence.attempt.error().to_owned(),
            detail: evidence.attempt.details().to_owned(),
            worker: evidence.worker.clone(),
            started_at: evidence.started_at,
            ended_at: evidence.ended_at,
        }
    }
}
