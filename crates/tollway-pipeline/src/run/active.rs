//! The claims that this process holds.

use std::collections::HashMap;
use std::sync::Mutex;

use super::lock;
use crate::Claim;

/// The open claims of this process. Bounded by the concurrency of the stages.
#[derive(Default)]
pub(super) struct ActiveClaims(Mutex<HashMap<Claim, usize>>);

impl ActiveClaims {
    /// Adds a claim of the stage with this index.
    pub(super) fn add(&self, claim: Claim, stage: usize) {
        lock(&self.0).insert(claim, stage);
    }

    pub(super) fn remove(&self, claim: &Claim) {
        lock(&self.0).remove(claim);
    }

    pub(super) fn of_stage(&self, stage: usize) -> Vec<Claim> {
        let claims = lock(&self.0);
        claims.iter().filter(|(_, of)| **of == stage).map(|(claim, _)| claim.clone()).collect()
    }

    pub(super) fn all(&self) -> Vec<Claim> {
        lock(&self.0).keys().cloned().collect()
    }
}
