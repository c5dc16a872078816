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
    /// Adds a claim of the stage with this index, and starts its worker.
    pub(super) fn start(&self, claim: Claim, stage: usize, worker: impl FnOnce() -> AbortHandle) {
        // The worker may be quick: it finds its claim when it looks for it.
        let mut claims = lock(&self.0);
        claims.insert(claim, Active { stage, begun_at: None, worker: Some(worker()) });
    }

    /// The job of a claim waits for no quota any more: its call begins.
    pub(super) fn begin(&self, claim: &Claim, now: Timestamp) {
        if let Some(active) = lock(&self.0).get_mut(claim) {
            active.begun_at = Some(now);
        }
    }

    /// The worker of a claim, which ends it now and is not stopped any more: the engine knows whether the claim is still the
    /// newest. None: the worker is being stopped.
    pub(super) fn conclude(&self, claim: &Claim) -> Option<AbortHandle> {
        lock(&self.0).get_mut(claim)?.worker.take()
    }

    /// A claim has ended. Its worker goes on with this one, of the stage with this index.
    pub(super) fn end(&self, claim: &Claim, goes_on: Option<(Claim, usize, AbortHandle)>) {
        let mut claims = lock(&self.0);
        claims.remove(claim);
        if let Some((next, stage, worker)) = goes_on {
            claims.insert(next, Active { stage, begun_at: None, worker: Some(worker) });
        }
    }

    /// Stops the worker of a claim that is not the newest any more. False if it is about to end it, or has.
    pub(super) fn stop(&self, claim: &Claim) -> bool {
        let mut claims = lock(&self.0);
        let Some(worker) = claims.get_mut(claim).and_then(|active| active.worker.take()) else {
            return false;
        };
        claims.remove(claim);
        worker.abort();
        true
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
