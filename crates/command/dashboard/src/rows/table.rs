//! Every policy that this process used, with the growth of its counters.
//!
//! One pass a second while someone watches, else one in five seconds: the limiter counts at most `POLICIES_MAX` policies one
//! by one, and reading the counters of one takes a few cache lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollway::metrics::{CountedPolicy, SubjectsSeen};
use tollway::{Limiter, Name, Policy, Subject, Timestamp};

use super::recent::{Growth, Recent, STEP, STEPS};

/// How many limits have five minutes of their own at a time: those that were used last. See [`crate::history`] for the memory.
pub(crate) const LIMITS_MAX: usize = 4_096;

/// The used policies.
pub(crate) struct Table {
    pub(crate) policies: Vec<TrackedPolicy>,
    by_name: HashMap<String, usize>,
    /// How many of them have counters.
    counted: usize,
    /// The number of the step that runs.
    step: u64,
    /// The generation of the policies as they were last looked up.
    generation: u64,
    tracked_limits: usize,
    /// If the config has at most so many policies, all are shown.
    included_max: usize,
    pub(crate) granted: Recent<u32>,
    pub(crate) denied: Recent<u32>,
}

/// One used policy.
pub(crate) struct TrackedPolicy {
    /// Its counters, if this process used it.
    pub(crate) counted: Option<CountedPolicy>,
    /// Whether it is shown although nothing happens under it here.
    is_included: bool,
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

/// One limit of a used policy.
pub(crate) struct TrackedLimit {
    pub(crate) name: Name,
    /// `POLICY/LIMIT`.
    pub(crate) id: String,
    pub(crate) is_stopped: bool,
    denied: Growth,
    pub(crate) recent: Option<Box<RecentLimit>>,
    pub(crate) reading: Option<Reading>,
}

/// The five minutes of a limit.
pub(crate) struct RecentLimit {
    pub(crate) denied: Recent<u32>,
    /// In 63rds of the capacity; [`UNKNOWN`] if nobody read it.
    pub(crate) used: Recent<u8>,
}

/// A step in which the store was not asked.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// What the store said of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) used: u64,
    pub(crate) capacity: u64,
    /// By the local clock.
    pub(crate) resets_at: Timestamp,
    pub(crate) held_until: Option<Timestamp>,
    /// When it was read, by the local clock.
    pub(crate) at: Timestamp,
}

/// A limit at the end of a step, for the history.
pub(crate) struct StepOfLimit<'t> {
    pub(crate) policy: &'t TrackedPolicy,
    pub(crate) limit: &'t TrackedLimit,
    pub(crate) granted: u32,
    pub(crate) denied: u32,
}

/// How much less a take counts for the score a step later: half after about an hour.
const FADING: f64 = 0.999;

impl Table {
    pub(crate) fn new(now: Timestamp, included_max: usize) -> Self {
        Self {
            included_max,
            policies: Vec::new(),
            by_name: HashMap::new(),
            counted: 0,
            step: step_of(now),
            generation: u64::MAX,
            tracked_limits: 0,
            granted: Recent::of(0),
            denied: Recent::of(0),
        }
    }

    /// Reads all counters. `on_step` gets each active limit for each step that has ended.
    pub(crate) fn read(
        &mut self,
        limiter: &Limiter,
        now: Timestamp,
        mut on_step: impl FnMut(u64, StepOfLimit<'_>),
    ) {
        self.add_new(limiter);
        self.look_up(limiter);
        let mut tracked = self.tracked_limits;
        for policy in &mut self.policies {
            policy.read_counters(&mut tracked);
        }
        self.tracked_limits = tracked;
        let step = step_of(now);
        let ended = step.saturating_sub(self.step);
        for number in 0..ended.min(STEPS as u64) {
            self.end_step(step - ended + number, now, &mut on_step);
        }
        self.step = step;
    }

    /// A policy by its name.
    pub(crate) fn policy(&self, name: &str) -> Option<&TrackedPolicy> {
        self.policies.get(*self.by_name.get(name)?)
    }

    /// How many policies were used.
    pub(crate) fn policies_used(&self) -> usize {
        self.counted
    }

    /// Policies that were not counted before.
    fn add_new(&mut self, limiter: &Limiter) {
        if limiter.counted_policies_len() == self.counted {
            return;
        }
        let identities = self.policies.iter().filter_map(|policy| Some(policy.counted.as_ref()?.identity()));
        let known: HashSet<usize> = identities.collect();
        for counted in limiter.counted_policies() {
            let Ok(name) = Name::new(counted.policy()) else { continue };
            if known.contains(&counted.identity()) {
                continue;
            }
            self.counted += 1;
            let limits: Vec<Name> = counted.limits().cloned().collect();
            // It may be shown already, without counters.
            let shown = self
                .policies
                .iter_mut()
                .find(|policy| policy.counted.is_none() && policy.name == name && policy.has_limits(&limits));
            match shown {
                Some(shown) => shown.counted = Some(counted),
                None => self.policies.push(TrackedPolicy::new(name, &limits, Some(counted))),
            }
        }
        self.generation = u64::MAX;
    }

    /// Looks the policies up as they are in force, if that changed.
    fn look_up(&mut self, limiter: &Limiter) {
        let generation = limiter.policies_generation();
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        self.policies.iter_mut().for_each(|policy| policy.look_up(limiter));
        self.include_all(limiter);
        self.by_name.clear();
        let in_force = self.policies.iter().enumerate().filter(|(_, policy)| policy.in_force.is_some());
        self.by_name.extend(in_force.map(|(index, policy)| (policy.name.to_string(), index)));
    }

    /// Shows every policy of a small config.
    fn include_all(&mut self, limiter: &Limiter) {
        let is_small = limiter.policies_len() <= self.included_max;
        let mut shown: HashSet<Name> = HashSet::new();
        for policy in &mut self.policies {
            policy.is_included = is_small && policy.in_force.is_some();
            if policy.is_included {
                shown.insert(policy.name.clone());
                policy.remember(&mut self.tracked_limits);
            }
        }
        // What is neither in force nor counted has nothing to show.
        self.policies.retain(|policy| policy.counted.is_some() || policy.in_force.is_some());
        if !is_small {
            return;
        }
        for in_force in limiter.policies_in_force().iter().filter(|policy| !shown.contains(policy.name())) {
            let limits: Vec<Name> = in_force.limits().iter().map(|limit| limit.name().clone()).collect();
            let mut policy = TrackedPolicy::new(in_force.name().clone(), &limits, None);
            policy.is_included = true;
            policy.look_up(limiter);
            policy.remember(&mut self.tracked_limits);
            self.policies.push(policy);
        }
    }

    fn end_step(&mut self, step: u64, now: Timestamp, on_step: &mut impl FnMut(u64, StepOfLimit<'_>)) {
        let (mut granted, mut denied) = (0u32, 0u32);
        for policy in &mut self.policies {
            if policy.recent.is_none() {
                continue;
            }
            let of_policy = policy.end_step(&mut self.tracked_limits, now);
            granted = granted.saturating_add(of_policy.0);
            denied = of_policy.1.iter().fold(denied, |sum, denied| sum.saturating_add(*denied));
            for (limit, denied) in policy.limits.iter().zip(&of_policy.1) {
                on_step(step, StepOfLimit { policy, limit, granted: of_policy.0, denied: *denied });
            }
        }
        self.granted.push(granted);
        self.denied.push(denied);
    }
}

impl TrackedPolicy {
    fn new(name: Name, limits: &[Name], counted: Option<CountedPolicy>) -> Self {
        let limit = |limit: &Name| TrackedLimit {
            name: limit.clone(),
            id: format!("{name}/{limit}"),
            is_stopped: false,
            // What it counted before is growth: it is new.
            denied: Growth::default(),
            recent: None,
            reading: None,
        };
        Self {
            limits: limits.iter().map(limit).collect(),
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

    fn has_limits(&self, names: &[Name]) -> bool {
        self.limits.iter().map(|limit| &limit.name).eq(names)
    }

    fn look_up(&mut self, limiter: &Limiter) {
        let in_force = limiter.policy_in_force(self.name.as_str());
        self.in_force = in_force.filter(|in_force| {
            let names = in_force.limits().iter().map(|limit| limit.name());
            names.eq(self.limits.iter().map(|limit| &limit.name))
        });
        for limit in &mut self.limits {
            limit.is_stopped = limiter.is_stopped(self.name.as_str(), limit.name.as_str());
        }
    }

    fn read_counters(&mut self, tracked: &mut usize) {
        let Some(counted) = &self.counted else { return };
        let mut grown = self.granted.read(counted.granted());
        self.would_deny.read(counted.would_deny());
        for (index, limit) in self.limits.iter_mut().enumerate() {
            grown = grown.saturating_add(limit.denied.read(counted.denied(index)));
        }
        if grown > 0 {
            (self.idle, self.score) = (0, self.score + grown as f64);
            self.remember(tracked);
        }
    }

    /// Keeps five minutes of it, if there is room.
    fn remember(&mut self, tracked: &mut usize) {
        if self.recent.is_some() || *tracked + self.limits.len() > LIMITS_MAX {
            return;
        }
        *tracked += self.limits.len();
        let (granted, would_deny) = (Recent::of(0), Recent::of(0));
        self.recent = Some(Box::new(RecentTakes { granted, would_deny }));
        for limit in &mut self.limits {
            let (denied, used) = (Recent::of(0), Recent::of(UNKNOWN));
            limit.recent = Some(Box::new(RecentLimit { denied, used }));
        }
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
    fn end_step(&mut self, tracked: &mut usize, now: Timestamp) -> (u32, Vec<u32>) {
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
            for limit in &mut self.limits {
                (limit.recent, limit.reading) = (None, None);
            }
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

impl TrackedLimit {
    fn end_step(&mut self, now: Timestamp) -> u32 {
        let denied = self.denied.end_step();
        let used = self.reading_in_step(now).map_or(UNKNOWN, |reading| reading.in_63rds(now));
        if let Some(recent) = &mut self.recent {
            recent.denied.push(denied);
            recent.used.push(used);
        }
        denied
    }

    /// Takes that it denied in five minutes, with the step that runs.
    pub(crate) fn denied_5m(&self) -> u64 {
        self.recent.as_ref().map_or(0, |recent| recent.denied.sum()) + self.denied.in_step()
    }

    /// The reading, if it is not older than two steps.
    pub(crate) fn reading_in_step(&self, now: Timestamp) -> Option<Reading> {
        self.reading.filter(|reading| now.since(reading.at) <= STEP.times(2))
    }

    fn is_empty(&self, now: Timestamp) -> bool {
        self.reading.is_none_or(|reading| reading.used == 0 || reading.resets_at <= now)
    }
}

impl Reading {
    /// What is used now: nothing, if its window has ended since it was read.
    pub(crate) fn used_at(&self, now: Timestamp) -> u64 {
        if self.resets_at <= now && now.since(self.at) > STEP { 0 } else { self.used }
    }

    pub(crate) fn permille(&self, now: Timestamp) -> u64 {
        match self.capacity {
            0 => 0,
            capacity => {
                let permille = u128::from(self.used_at(now)) * 1_000 / u128::from(capacity);
                u64::try_from(permille).unwrap_or(u64::MAX)
            }
        }
    }

    fn in_63rds(&self, now: Timestamp) -> u8 {
        // A little that is used shows as something.
        u8::try_from((self.permille(now) * 63).div_ceil(1_000).min(63)).unwrap_or(63)
    }
}

/// The number of the step at a time.
pub(crate) fn step_of(now: Timestamp) -> u64 {
    now.as_micros() / STEP.as_micros()
}
