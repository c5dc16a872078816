//! A decision with everything a vendor may say about it.

use tollway_core::{Span, Timestamp};

use crate::{Outcome, Shape, Unit};

/// What a vendor asks a client to wait that has too many calls running.
pub(crate) const CONCURRENCY_WAIT: Span = Span::from_secs(1);

/// A decision with the state of every quota, for a vendor that says more than an [`Answer`](crate::Answer) holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// When it was made.
    pub at: Timestamp,
    /// Accepted, refused or failed.
    pub outcome: Outcome,
    /// The quotas after an accepted call, or as a refused call found them.
    pub quotas: Vec<QuotaState>,
    /// The most calls at the same time, and how many more may start.
    pub concurrent: Option<(u64, u64)>,
}

/// The state of one quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// What it counts.
    pub unit: Unit,
    /// The shape in force.
    pub shape: Shape,
    /// Whole units that are left.
    pub left: u64,
    /// The time until the whole quota is free again: the end of the window, or until the bucket is full.
    pub full_in: Span,
    /// The time until the refused call fits, if this quota refused it.
    pub wait: Option<Span>,
}

impl Ruling {
    /// The time until a refused call fits all quotas. A vendor cannot know when a running call ends: then it is a second.
    pub fn wait(&self) -> Option<Span> {
        let longest = self.quotas.iter().filter_map(|quota| quota.wait).max();
        (self.outcome == Outcome::Refused).then(|| longest.unwrap_or(CONCURRENCY_WAIT))
    }

    /// The quota that a refused call has to wait for; of several, the one with the longest wait.
    pub fn refused_by(&self) -> Option<&QuotaState> {
        self.quotas.iter().filter(|quota| quota.wait.is_some()).max_by_key(|quota| quota.wait)
    }

    /// True if too many calls were running, and all quotas had room.
    pub fn is_concurrency(&self) -> bool {
        self.outcome == Outcome::Refused && self.refused_by().is_none()
    }
}
