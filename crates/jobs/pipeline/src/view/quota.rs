//! What the stages take from, and how much of it is used.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tollway::{Denied, Limit, LimitUsage, Limiter};
use tollway_core::{Algorithm, Name, Span, Timestamp};

use crate::run::progress::Progress;
use crate::{JobCost, PipelineConfig};

/// Less than this between the store's time and the pipeline's is the time of the call itself.
const SAME_CLOCK: Span = Span::from_secs(1);

/// The policies of a pipeline at one moment.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// What each policy's limits show.
    pub(super) policies: Vec<PolicyQuota>,
    /// Stages whose next job does not fit now, and when it may.
    waits: BTreeMap<Name, Timestamp>,
}

/// The limits of a policy; empty if the store did not answer.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyQuota {
    /// The policy.
    #[serde(rename = "policy")]
    pub name: String,
    /// Its limits.
    pub limits: Vec<LimitQuota>,
}

/// What a limit shows.
#[derive(Clone, Debug)]
pub struct LimitQuota {
    /// Its figures.
    pub usage: LimitUsage,
    limit: Limit,
    /// The end of the running window, if takes are booked past it.
    pub closed_until: Option<Timestamp>,
}

impl Serialize for LimitQuota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { usage, closed_until, .. } = self;
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("limit", usage.name.as_str())?;
        fields.serialize_entry("unit", usage.unit.as_str())?;
        fields.serialize_entry("used", &usage.used)?;
        fields.serialize_entry("capacity", &usage.capacity)?;
        fields.serialize_entry("reset_at", &usage.resets_at.to_string())?;
        fields.serialize_entry("as_of", &usage.as_of.to_string())?;
        fields.serialize_entry("closed_until", &closed_until.map(|until| until.to_string()))?;
        fields.end()
    }
}

impl LimitQuota {
    /// The beginning of the window that the figures are about.
    pub fn booked_window(&self) -> Timestamp {
        self.limit.window_start(self.usage.as_of, self.usage.resets_at)
    }

    /// Before when so much more is not granted: each further window has room for the limit's amount.
    fn granted_by(&self, amount: f64) -> Option<Timestamp> {
        let period = match self.limit.algorithm() {
            Algorithm::Window(_) => self.limit.period()?,
            _ => return None,
        };
        let beyond = amount - self.usage.remaining as f64;
        if beyond <= 0.0 {
            return None;
        }
        let windows = (beyond / self.usage.capacity.max(1) as f64).ceil() - 1.0;
        Some(self.usage.resets_at.plus(period.times(windows.min(1e6) as u64)))
    }
}

/// The policy that a job of this cost would wait for longest now, and until when. None: it fits, or the store does not say.
pub(super) async fn waits_for(
    limiter: &Limiter,
    config: &PipelineConfig,
    cost: &JobCost,
    now: Timestamp,
) -> Option<(String, Timestamp)> {
    let mut longest: Option<(String, Timestamp)> = None;
    for (policy, units) in cost.amounts() {
        let mut take = limiter.try_take(&policy).subject(config.subject.as_str());
        for (unit, amount) in &units {
            take = take.cost(unit, *amount);
        }
        let Ok(Some(denied)) = take.preview().await else { continue };
        let until = fits_at(&denied, now);
        if longest.as_ref().is_none_or(|(_, known)| *known < until) {
            longest = Some((policy, until));
        }
    }
    longest
}

/// When a denied cost fits, in the pipeline's time. The store may go by another clock; then only the wait counts.
fn fits_at(denied: &Denied, now: Timestamp) -> Timestamp {
    let decision = denied.decision();
    match decision.now.since(now).max(now.since(decision.now)) <= SAME_CLOCK {
        true => denied.retry_at(),
        false => now.plus(decision.wait()),
    }
}

impl Quota {
    /// Reads meters, and takes nothing. A store that does not answer leaves its part out. It is `now` in the
    /// pipeline's time.
    pub(super) async fn read(limiter: &Limiter, config: &PipelineConfig, now: Timestamp) -> Self {
        let mut quota = Self::default();
        for policy in config.policies() {
            quota.policies.push(PolicyQuota::read(policy, limiter, config).await);
        }
        for stage in &config.stages {
            if let Some((_, until)) = waits_for(limiter, config, &stage.take, now).await {
                quota.waits.insert(stage.name.clone(), until);
            }
        }
        quota
    }

    /// Adds until when stages wait, where the runner has not said it, and lets the estimated end agree with the limits.
    pub(super) fn complete(&self, progress: Progress, config: &PipelineConfig) -> Progress {
        let mut progress = progress;
        let mut added = false;
        for stage in
            progress.stages.iter_mut().filter(|stage| stage.ready > 0 && stage.waiting_until.is_none())
        {
            stage.waiting_until = self.waits.get(&stage.stage).copied();
            added |= stage.waiting_until.is_some();
        }
        if added {
            progress = progress.after_waits();
        }
        match self.granted_by(&progress, config) {
            Some(at) => progress.not_before(at),
            None => progress,
        }
    }

    /// Before when the limits do not grant what is left.
    fn granted_by(&self, progress: &Progress, config: &PipelineConfig) -> Option<Timestamp> {
        let mut amounts: BTreeMap<(String, String), f64> = BTreeMap::new();
        for ((stage, now), left) in config.stages.iter().zip(&progress.stages).zip(&progress.left_by_stage) {
            // Running jobs have taken already.
            let left = (left - now.running as f64).max(0.0);
            for (policy, units) in stage.take.amounts() {
                for (unit, amount) in units {
                    *amounts.entry((policy.clone(), unit)).or_default() += left * amount as f64;
                }
            }
        }
        let limits = self.policies.iter().flat_map(|policy| {
            policy.limits.iter().map(|limit| ((policy.name.clone(), limit.usage.unit.to_string()), limit))
        });
        limits.filter_map(|(unit, limit)| limit.granted_by(*amounts.get(&unit)?)).max()
    }
}

impl PolicyQuota {
    async fn read(name: String, limiter: &Limiter, config: &PipelineConfig) -> Self {
        let usage = limiter.usage(&name).subject(config.subject.as_str()).await;
        let policy = limiter.policy(&name).map(|handle| handle.policy());
        let (Ok(usage), Ok(policy)) = (usage, policy) else { return Self { name, limits: Vec::new() } };
        let now = limiter.clock().now();
        let limits = usage.limits.into_iter().zip(policy.limits()).map(|(usage, limit)| LimitQuota {
            closed_until: limit.closed_until(usage.as_of, usage.resets_at, now),
            limit: limit.clone(),
            usage,
        });
        Self { name, limits: limits.collect() }
    }
}
