//! Tollway in several processes, simulated by one limiter each; callers are spread over them.

use anyhow::{Result, ensure};
use tollway::core::Lease;
use tollway::{Limiter, PolicyHandle};

use crate::stores::callers::{Entrant, Stage};
use crate::stores::ours;

/// Every take asks the store, batched with concurrent ones of its process.
pub(super) struct Crowd<const PROCESSES: usize>(Vec<Limiter>);

/// Each process uses leases.
pub(super) struct LeasedCrowd<const PROCESSES: usize>(Vec<Limiter>);

impl<const PROCESSES: usize> Entrant for Crowd<PROCESSES> {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self(limiters(stage, PROCESSES, Lease::Off).await?))
    }

    fn caller(&self, number: usize) -> PolicyHandle {
        ours::handle(&self.0[number % PROCESSES])
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = ours::used(&self.0[0], subject).await?;
        ensure!(used == takes, "{takes} takes were granted and {used} counted");
        Ok(())
    }
}

impl<const PROCESSES: usize> Entrant for LeasedCrowd<PROCESSES> {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        Ok(Self(limiters(stage, PROCESSES, Lease::On).await?))
    }

    fn caller(&self, number: usize) -> PolicyHandle {
        ours::handle(&self.0[number % PROCESSES])
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let used = ours::used(&self.0[0], subject).await?;
        ensure!(used >= takes, "{takes} takes were granted and only {used} counted");
        Ok(())
    }
}

async fn limiters(stage: &Stage, processes: usize, lease: Lease) -> Result<Vec<Limiter>> {
    let limiters = (0..processes).map(|_| ours::limiter(stage, lease)).collect::<Result<Vec<_>>>()?;
    // The first one creates the table.
    ours::used(&limiters[0], &stage.keys.keys[0]).await?;
    Ok(limiters)
}
