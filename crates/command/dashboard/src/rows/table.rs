//! Every policy that this process used, with the growth of its counters.
//!
//! One pass a second while someone watches, else one in five seconds: the limiter counts at most `POLICIES_MAX` policies one
//! by one, and reading the counters of one takes a few cache lines.

use std::collections::{HashMap, HashSet};

use tollway::{Limiter, Name, Timestamp};

use super::limit::TrackedLimit;
use super::policy::TrackedPolicy;
use super::recent::{Recent, STEP, STEPS};

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

/// A limit at the end of a step, for the history.
pub(crate) struct StepOfLimit<'t> {
    pub(crate) policy: &'t TrackedPolicy,
    pub(crate) limit: &'t TrackedLimit,
    pub(crate) granted: u32,
    pub(crate) denied: u32,
}

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

/// The number of the step at a time.
pub(crate) fn step_of(now: Timestamp) -> u64 {
    now.as_micros() / STEP.as_micros()
}
