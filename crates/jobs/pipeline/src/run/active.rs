//! The claims that this process holds.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::task::AbortHandle;
use tollway_core::Timestamp;

use super::lock;
use crate::Claim;

/// The open claims of this process. Bounded by the concurrency of the stages.
#[derive(Default)]
pub(super) struct ActiveClaims(Mutex<HashMap<Claim, Active>>);

struct Active {
    /// The index of its stage.
    stage: usize,
    /// When its call began.
    begun_at: Option<Timestamp>,
    worker: Option<AbortHandle>,
}

impl ActiveClaims {
    /// Adds a claim of the stage with this index, before its worker starts.
    pub(super) fn add(&self, claim: Claim, stage: usize) {
        lock(&self.0).insert(claim, Active { stage, begun_at: None, worker: None });
    }

    /// The job of a claim waits for no quota any more: its call begins.
    pub(super) fn begin(&self, claim: &Claim, now: Timestamp) {
        if let Some(active) = lock(&self.0).get_mut(claim) {
            active.begun_at = Some(now);
        }
    }

    /// Names the worker of a claim, unless it has ended already.
    pub(super) fn set_worker(&self, claim: &Claim, worker: AbortHandle) {
        if let Some(active) = lock(&self.0).get_mut(claim) {
            active.worker = Some(worker);
        }
    }

    pub(super) fn remove(&self, claim: &Claim) {
        lock(&self.0).remove(claim);
    }

    /// Stops the worker of a claim that is not the newest any more. False if it has ended already.
    pub(super) fn stop(&self, claim: &Claim) -> bool {
        let active = lock(&self.0).remove(claim);
        active.and_then(|active| active.worker).map(|worker| worker.abort()).is_some()
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    pub(super) fn of_stage(&self, stage: usize) -> Vec<Claim> {
        let claims = lock(&self.0);
        claims.iter().filter(|(_, active)| active.stage == stage).map(|(claim, _)| claim.clone()).collect()
    }

    /// Those whose calls began before this time, and the others.
    pub(super) fn begun_before(&self, time: Timestamp) -> (Vec<Claim>, Vec<Claim>) {
        let claims = lock(&self.0);
        let all = claims.iter().map(|(claim, active)| (claim.clone(), active.begun_at));
        let (before, after): (Vec<_>, Vec<_>) = all.partition(|(_, at)| at.is_some_and(|at| at < time));
        let claim = |(claim, _)| claim;
        (before.into_iter().map(claim).collect(), after.into_iter().map(claim).collect())
    }
}
