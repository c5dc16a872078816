//! The last refusals of an api, and whose they were: of our limits, or of the vendor.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollway_core::{Span, Timestamp};

/// How many refusals of an api are kept: a table of them, in some thirty kilobytes.
const REFUSALS_MAX: usize = 100;

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRefusal {
    /// When, by the local clock.
    pub at: Timestamp,
    /// Who refused it.
    pub by: RefusedBy,
    /// How long to wait, if that was said.
    pub wait: Option<Span>,
}

/// Who refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// A limit of ours: the call was not sent.
    OurLimit {
        /// The policy.
        policy: String,
        /// The limit, if it was one, and no hold.
        limit: Option<String>,
    },
    /// The vendor.
    Vendor {
        /// The dialect in which its answer was read.
        dialect: &'static str,
        /// Why: `rate`, `concurrency`, `daily_quota`, `overload`, `no_access` or `lock`.
        kind: &'static str,
        /// What it said.
        words: Option<String>,
    },
}

/// The last refusals, the oldest first.
#[derive(Debug, Default)]
pub(super) struct LastRefusals(Mutex<VecDeque<ApiRefusal>>);

impl LastRefusals {
    pub(super) fn note(&self, refusal: ApiRefusal) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= REFUSALS_MAX {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    /// The newest first.
    pub(super) fn newest_first(&self) -> Vec<ApiRefusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}
