//! The state that all connections share: the vendor, its clock, and the log of calls.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tollway_core::{Clock, Span, Timestamp};
use tollway_memory::WallClock;

use super::{VendorDialect, VendorSettings};
use crate::{CallCost, Outcome, Quota, Random, Ruling, Vendor};

/// The most calls that are kept with their time: 32 bytes each.
const CALLS_MAX: usize = 200_000;

/// One call, as the vendor decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// When it was decided, by the machine's clock.
    pub at: Timestamp,
    /// Accepted, refused or failed.
    pub outcome: Outcome,
    /// The tokens it was counted with.
    pub tokens: u64,
}

/// Calls since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VendorCounts {
    /// Answered with 2xx.
    pub accepted: u64,
    /// Refused because of a limit.
    pub refused: u64,
    /// Answered with 5xx. They count against the quotas.
    pub failed: u64,
    /// Tokens of calls that were not refused.
    pub tokens: u64,
}

pub(super) struct VendorState {
    pub(super) dialect: &'static VendorDialect,
    latency: (Span, Span),
    core: Mutex<Core>,
}

struct Core {
    vendor: Vendor,
    /// Draws latencies. The vendor has its own numbers, so that latency does not change its decisions.
    random: Random,
    /// The last time. The machine's clock may go back; the vendor's does not.
    last: Timestamp,
    counts: VendorCounts,
    calls: VecDeque<LoggedCall>,
}

/// A call that runs at the vendor. Dropped when it is answered, or when its client is gone.
pub(super) struct RunningCall(Arc<VendorState>);

impl VendorState {
    pub(super) fn new(settings: VendorSettings) -> Self {
        let VendorSettings { terms, dialect, seed, .. } = settings;
        let now = WallClock.now();
        let latency = terms.latency;
        let core = Core {
            vendor: Vendor::starting_at(now, terms, seed),
            random: Random::new(seed.wrapping_add(1)),
            last: now,
            counts: VendorCounts::default(),
            calls: VecDeque::new(),
        };
        Self { dialect, latency, core: Mutex::new(core) }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that the next call takes.
    pub(super) fn draw_latency(&self) -> Span {
        let (low, high) = self.latency;
        Span::from_micros(self.core().random.between(low.as_micros(), high.as_micros()))
    }

    /// Decides a call now. One that is not refused runs until the second value is dropped.
    pub(super) fn rule(self: &Arc<Self>, tokens: u64) -> (Ruling, Option<RunningCall>) {
        let mut core = self.core();
        core.last = core.last.max(WallClock.now());
        let now = core.last;
        let ruling = core.vendor.rule(now, CallCost { tokens });
        core.log(LoggedCall { at: now, outcome: ruling.outcome, tokens });
        let running = (ruling.outcome != Outcome::Refused).then(|| RunningCall(Arc::clone(self)));
        (ruling, running)
    }

    pub(super) fn counts(&self) -> VendorCounts {
        self.core().counts
    }

    pub(super) fn calls(&self) -> Vec<LoggedCall> {
        self.core().calls.iter().copied().collect()
    }

    pub(super) fn count_between(&self, outcome: Outcome, from: Timestamp, to: Timestamp) -> usize {
        let core = self.core();
        let is_meant = |call: &&LoggedCall| call.outcome == outcome && (from..to).contains(&call.at);
        core.calls.iter().filter(is_meant).count()
    }

    pub(super) fn set_quotas(&self, quotas: Vec<Quota>) {
        self.core().vendor.set_quotas(quotas);
    }
}

impl Core {
    fn log(&mut self, call: LoggedCall) {
        let count = match call.outcome {
            Outcome::Accepted => &mut self.counts.accepted,
            Outcome::Refused => &mut self.counts.refused,
            Outcome::Failed => &mut self.counts.failed,
        };
        *count += 1;
        if call.outcome != Outcome::Refused {
            self.counts.tokens = self.counts.tokens.saturating_add(call.tokens);
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.core().vendor.finish_call();
    }
}

impl fmt::Debug for VendorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VendorState").field("dialect", &self.dialect).field("counts", &self.counts()).finish()
    }
}
