//! One used policy: the growth of its counters, and the five minutes of its limits.

use std::sync::Arc;

use tollway::metrics::{CountedPolicy, SubjectsSeen};
use tollway::{Limiter, Name, Policy, Subject, Timestamp};

use super::limit::TrackedLimit;
use super::recent::{Growth, Recent, STEPS};
use super::table::LIMITS_MAX;

/// How much less a take counts for the score a step later: half after about an hour.
const FADING: f64 = 0.999;

/// One used policy.
pub(crate) struct TrackedPolicy {
    /// Its counters, if this process used it.
    pub(crate) counted: Option<CountedPolicy>,
    /// Whether it is shown although nothing happens under it here.
    pub(super) is_included: bool,
    pub(crate) name: Name,
    pub(crate) limits: Vec<TrackedLimit>,
    /// As it is in force; `None` if it is not, or its limits are others by now.
    pub(crate) in_force: Option<Arc<Policy>>,
    granted: Growth,
    would_deny: Growth,
    /// While it is active.
    pub(crate) recent: Option<Box<RecentTakes>>,
    /// The steps since its last take.
    idle: usize,
    /// How much it is used, with less weight for what is long ago.
    pub(crate) score: f64,
    /// The fullest subject that was read.
    pub(crate) fullest: Option<Subject>,
}

/// The takes of a policy in five minutes.
pub(crate) struct RecentTakes {
    pub(crate) granted: Recent<u32>,
    pub(crate) would_deny: Recent<u32>,
}

impl TrackedPolicy {
    pub(super) fn new(name: Name, limits: &[Name], counted: Option<CountedPolicy>) -> Self {
        Self {
            limits: limits.iter().map(|limit| TrackedLimit::new(&name, limit)).collect(),
            counted,
            is_included: false,
            in_force: None,
            granted: Growth::default(),
            would_deny: Growth::default(),
            recent: None,
            idle: 0,
            score: 0.0,
            fullest: None,
            name,
        }
    }

    pub(super) fn has_limits(&self, names: &[Name]) -> bool {
        self.limits.iter().map(|limit| &limit.name).eq(names)
    }

    pub(super) fn look_up(&mut self, limiter: &Limiter) {
        let in_force = limiter.policy_in_force(self.name.as_str());
        self.in_force = in_force.filter(|in_force| {
            let names = in_force.limits().iter().map(|limit| limit.name());
            names.eq(self.limits.iter().map(|limit| &limit.name))
        });
        for limit in &mut self.limits {
            limit.is_stopped = limiter.is_stopped(self.name.as_str(), limit.name.as_str());
        }
    }

    pub(super) fn read_counters(&mut self, tracked: &mut usize) {
        let Some(counted) = &self.counted else { return };
        let mut grown = self.granted.read(counted.granted());
        self.would_deny.read(counted.would_deny());
        for (index, limit) in self.limits.iter_mut().enumerate() {
            grown = grown.saturating_add(limit.read_counter(counted.denied(index)));
        }
        if grown > 0 {
            (self.idle, self.score) = (0, self.score + grown as f64);
            self.remember(tracked);
        }
    }

    /// Keeps five minutes of it, if there is room.
    pub(super) fn remember(&mut self, tracked: &mut usize) {
        if self.recent.is_some() || *tracked + self.limits.len() > LIMITS_MAX {
            return;
        }
        *tracked += self.limits.len();
        let (granted, would_deny) = (Recent::of(0), Recent::of(0));
        self.recent = Some(Box::new(RecentTakes { granted, would_deny }));
        self.limits.iter_mut().for_each(TrackedLimit::remember);
    }

    /// Whether takes name subjects.
    pub(crate) fn has_subjects(&self) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.has_subjects())
    }

    /// Its subjects in the last five minutes, as far as they are noted.
    pub(crate) fn subjects(&self) -> Option<SubjectsSeen> {
        self.counted.as_ref()?.subjects()
    }

    /// Returns what was granted, and what each limit denied.
    pub(super) fn end_step(&mut self, tracked: &mut usize, now: Timestamp) -> (u32, Vec<u32>) {
        let (granted, would_deny) = (self.granted.end_step(), self.would_deny.end_step());
        if let Some(recent) = &mut self.recent {
            recent.granted.push(granted);
            recent.would_deny.push(would_deny);
        }
        let denied: Vec<u32> = self.limits.iter_mut().map(|limit| limit.end_step(now)).collect();
        self.score *= FADING;
        self.idle += 1;
        if self.idle > STEPS && !self.is_included && self.limits.iter().all(|limit| limit.is_empty(now)) {
            *tracked = tracked.saturating_sub(self.limits.len());
            self.recent = None;
            self.limits.iter_mut().for_each(TrackedLimit::forget);
        }
        (granted, denied)
    }

    /// Takes granted in five minutes, with the step that runs.
    pub(crate) fn granted_5m(&self) -> u64 {
        self.recent.as_ref().map_or(0, |recent| recent.granted.sum()) + self.granted.in_step()
    }

    /// Takes that a shadow would have denied in five minutes.
    pub(crate) fn would_deny_5m(&self) -> u64 {
        self.recent.as_ref().map_or(0, |recent| recent.would_deny.sum()) + self.would_deny.in_step()
    }

    /// When it was last read; `None` if it never was.
    pub(crate) fn read_at(&self) -> Option<Timestamp> {
        self.limits.iter().filter_map(|limit| limit.reading).map(|reading| reading.at).max()
    }

    /// How full its fullest limit is, in 1,000ths.
    pub(crate) fn fullness(&self, now: Timestamp) -> u64 {
        self.limits
            .iter()
            .filter_map(|limit| limit.reading)
            .map(|reading| reading.permille(now))
            .max()
            .unwrap_or(0)
    }
}
