//! What happened under one policy, counted so that threads do not wait for each other.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tollway_core::bounds::LIMITS_PER_POLICY_MAX;
use tollway_core::{Cost, Histogram, Limit, Name};

use super::subjects::{SubjectWatch, WatchedSubjects};
use super::used_ratio::DenialWindow;
use super::waiting::WaitingCallers;
use crate::LimitUsage;

/// So many threads count without getting in each other's way; more share.
const CELLS: usize = 16;

/// What happened under one policy.
pub(crate) struct PolicyCounts {
    pub(super) policy: String,
    /// Its limits, with the index of the unit that each counts.
    pub(super) limits: Vec<(Name, Option<usize>)>,
    cells: [ThreadCounts; CELLS],
    /// Whether a take used the policy's shared subject.
    pub(super) is_shared: AtomicBool,
    /// Whether a take named a subject.
    pub(super) has_subjects: AtomicBool,
    pub(super) subjects: WatchedSubjects,
    pub(super) failed: AtomicU64,
    pub(super) would_deny: AtomicU64,
    pub(super) incidents: AtomicU64,
    pub(crate) latency: Histogram,
    pub(crate) waiting: WaitingCallers,
    /// What denied takes asked for beyond one unit each: most ask for one, and count nothing here.
    denied_beyond_one: [AtomicU64; LIMITS_PER_POLICY_MAX],
    /// Of each limit.
    windows: Mutex<[DenialWindow; LIMITS_PER_POLICY_MAX]>,
}

/// One thread's counts: a few cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct ThreadCounts {
    granted: AtomicU64,
    taken: [AtomicU64; LIMITS_PER_POLICY_MAX],
    denied: [AtomicU64; LIMITS_PER_POLICY_MAX],
}

impl PolicyCounts {
    pub(super) fn new(policy: &str, units: &[Name], limits: &[Limit], watch: &Arc<SubjectWatch>) -> Self {
        let unit_of = |limit: &Limit| units.iter().position(|unit| unit == limit.unit());
        Self {
            policy: policy.to_owned(),
            limits: limits.iter().map(|limit| (limit.name().clone(), unit_of(limit))).collect(),
            cells: Default::default(),
            is_shared: AtomicBool::new(false),
            has_subjects: AtomicBool::new(false),
            subjects: WatchedSubjects::new(watch),
            failed: AtomicU64::new(0),
            would_deny: AtomicU64::new(0),
            incidents: AtomicU64::new(0),
            latency: Histogram::default(),
            waiting: WaitingCallers::default(),
            denied_beyond_one: Default::default(),
            windows: Mutex::default(),
        }
    }

    pub(crate) fn granted(&self, subject: &str, cost: &Cost) {
        let known = if subject.is_empty() { &self.is_shared } else { &self.has_subjects };
        if !known.load(Ordering::Relaxed) {
            known.store(true, Ordering::Relaxed);
        }
        if self.subjects.is_watched() && !subject.is_empty() {
            self.subjects.note(subject, true);
        }
        let cell = self.own_cell();
        cell.granted.fetch_add(1, Ordering::Relaxed);
        for (counter, amount) in cell.taken.iter().zip(cost.amounts()) {
            if *amount > 0 {
                counter.fetch_add(*amount, Ordering::Relaxed);
            }
        }
    }

    /// A take for this subject was denied, while subjects are noted.
    pub(crate) fn note_denied(&self, subject: &str) {
        if self.subjects.is_watched() && !subject.is_empty() {
            self.subjects.note(subject, false);
        }
    }

    /// A take of this cost was denied by the limit with this index.
    pub(crate) fn denied(&self, limit: usize, cost: &Cost) {
        let unit = self.limits.get(limit).and_then(|(_, unit)| *unit);
        self.denied_units(limit, unit.and_then(|unit| cost.amounts().get(unit)).copied().unwrap_or(1));
    }

    /// A take of so many units of the limit with this index was denied by it.
    pub(crate) fn denied_units(&self, limit: usize, units: u64) {
        let index = limit.min(LIMITS_PER_POLICY_MAX - 1);
        self.own_cell().denied[index].fetch_add(1, Ordering::Relaxed);
        if units > 1 {
            self.denied_beyond_one[index].fetch_add(units - 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether subjects of takes are noted now.
    pub(crate) fn notes_subjects(&self) -> bool {
        self.subjects.is_watched()
    }

    pub(crate) fn would_deny(&self) {
        self.would_deny.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn incident(&self) {
        self.incidents.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn grants(&self) -> u64 {
        self.sum(|cell| &cell.granted)
    }

    /// Of the unit with this index.
    pub(super) fn taken(&self, unit: usize) -> u64 {
        self.sum(|cell| &cell.taken[unit.min(LIMITS_PER_POLICY_MAX - 1)])
    }

    /// Of all units together.
    pub(super) fn all_taken(&self) -> u64 {
        (0..LIMITS_PER_POLICY_MAX).fold(0, |sum, unit| sum.wrapping_add(self.taken(unit)))
    }

    /// By the limit with this index.
    pub(super) fn denials(&self, limit: usize) -> u64 {
        self.sum(|cell| &cell.denied[limit.min(LIMITS_PER_POLICY_MAX - 1)])
    }

    /// (granted + denied) / amount of the running window, in millionths; none for a limit without an amount.
    pub(super) fn used_ratio(&self, index: usize, limit: &Limit, usage: &LimitUsage) -> Option<u64> {
        let beyond_one = self.denied_beyond_one.get(index)?.load(Ordering::Relaxed);
        let denied = self.denials(index).wrapping_add(beyond_one);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.get_mut(index)?.ratio(limit, usage, denied)
    }

    fn sum(&self, counter: impl Fn(&ThreadCounts) -> &AtomicU64) -> u64 {
        let counts = self.cells.iter().map(|cell| counter(cell).load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    fn own_cell(&self) -> &ThreadCounts {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % CELLS);
        }
        &self.cells[OWN.get() % CELLS]
    }
}
