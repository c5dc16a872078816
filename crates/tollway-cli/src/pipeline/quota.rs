//! What the stages take from, and how much of it is used.

use std::collections::{BTreeMap, BTreeSet};

use tollway::core::Name;
use tollway::{Denied, LimitUsage, Limiter, Span, Timestamp};
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::{JobCost, PipelineConfig};

/// Less than this between the store's time and the pipeline's is the time of the call itself.
const SAME_CLOCK: Span = Span::from_secs(1);

/// The policies of a pipeline at one moment.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// What each policy's limits show; empty if the store did not answer.
    pub(super) used: Vec<(String, Vec<LimitUsage>)>,
    /// Stages whose next job does not fit now, and when it may.
    waits: BTreeMap<Name, Timestamp>,
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
        let policies: BTreeSet<String> =
            config.stages.iter().flat_map(|stage| stage.take.amounts().into_keys()).collect();
        for policy in policies {
            let limits =
                limiter.usage(&policy).subject(config.subject.as_str()).await.map(|usage| usage.limits);
            quota.used.push((policy, limits.unwrap_or_default()));
        }
        for stage in &config.stages {
            if let Some((_, until)) = waits_for(limiter, config, &stage.take, now).await {
                quota.waits.insert(stage.name.clone(), until);
            }
        }
        quota
    }

    /// Adds until when stages wait, where the runner has not said it.
    pub(super) fn complete(&self, progress: &mut Progress) {
        for stage in progress.stages.iter_mut().filter(|stage| stage.ready > 0) {
            stage.waiting_until = stage.waiting_until.or_else(|| self.waits.get(&stage.stage).copied());
        }
    }
}
