//! Ours: so many processes, each a limiter of its own; callers are spread over them.

use anyhow::{Result, ensure};
use tollway::{Limiter, PolicyHandle};

use crate::stores::callers::{Entrant, Stage};
use crate::stores::ours;

pub(super) struct Crowd<const PROCESSES: usize>(Vec<Limiter>);

impl<const PROCESSES: usize> Entrant for Crowd<PROCESSES> {
    type Caller = PolicyHandle;

    async fn start(stage: &Stage) -> Result<Self> {
        let limiters: Result<Vec<Limiter>> = (0..PROCESSES).map(|_| ours::plain(stage)).collect();
        let limiters = limiters?;
        // The first one makes the table.
        ours::used(&limiters[0], &stage.keys.keys[0]).await?;
        Ok(Self(limiters))
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
