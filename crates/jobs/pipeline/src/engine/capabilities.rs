//! What an engine can promise.

use serde::{Deserialize, Serialize};
use tollway_core::Span;

use crate::bounds::JOB_BYTES_MAX;

/// What an engine can promise. `run` says at the start what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// A completion and its outputs are stored together or not at all. Without it, outputs may come twice after a crash.
    pub atomic_hand_off: bool,
    /// Counts are exact at any time, and not estimates.
    pub exact_counts: bool,
    /// A job is never handed to a worker again after it was done. Without it, that holds while the engine remembers the job.
    pub delivers_once: bool,
    /// A claim can ask for one cost. Without it, `peek` and `claim` know one cost for the whole stage.
    pub claim_by_cost: bool,
    /// Jobs are claimed by priority and age.
    pub ordered: bool,
    /// Jobs that wait or are dead can be listed, edited and changed by filter.
    pub inspectable: bool,
    /// Stages can wait for groups.
    pub groups: bool,
    /// The longest delay of a job; none: any.
    pub delay_max: Option<Span>,
    /// How long a job is kept at most; none: until it is purged.
    pub retention_max: Option<Span>,
    /// The largest data of a job.
    pub job_bytes_max: usize,
}

impl Capabilities {
    /// Everything: what a database in one place can promise.
    pub const ALL: Self = Self {
        atomic_hand_off: true,
        exact_counts: true,
        delivers_once: true,
        claim_by_cost: true,
        ordered: true,
        inspectable: true,
        groups: true,
        delay_max: None,
        retention_max: None,
        job_bytes_max: JOB_BYTES_MAX,
    };
}
