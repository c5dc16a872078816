//! Tollway's consumers layer: looks up a consumer's limits and takes from its six documented counters.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use tollway::core::WhenStoreFails;
use tollway::{Limiter, Taken};
use tollway_consumers::{Admission, ConsumerId, ConsumersConfig, Gate, open_records};

use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::PLENTY;

pub(super) struct Consumers(Arc<Gate>);

pub(super) struct Client(Arc<Gate>);

impl Entrant for Consumers {
    type Caller = Client;

    async fn start(stage: &Stage) -> Result<Self> {
        let url = format!("{}?layout=consumers&deadline=10s", stage.url);
        let limiter = Limiter::builder().store_at(&url.parse()?)?.build();
        let defaults = [i64::try_from(PLENTY)?; 6];
        // A grant without the store would not be a decision.
        let when_store_fails = WhenStoreFails::Closed;
        let config = ConsumersConfig { defaults, when_store_fails, ..ConsumersConfig::default() };
        Ok(Self(Arc::new(Gate::new(limiter, open_records("sqlite::memory:")?, &config)?)))
    }

    fn caller(&self, _number: usize) -> Client {
        Client(Arc::clone(&self.0))
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let consumer = ConsumerId::new(subject)?;
        let limits = self.0.active(&consumer).await?.limits;
        let counters = self.0.counters(&consumer, limits).await?;
        // The longest period: shorter windows may have ended.
        let counted = counters.last().map_or(0, |counter| counter.calls_made);
        ensure!(counted == takes, "{takes} calls were granted and {counted} counted");
        Ok(())
    }
}

impl Caller for Client {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        let Admission::Counted(handle) = self.0.admission(&ConsumerId::new(subject)?).await? else {
            bail!("{subject} is not limited");
        };
        // Every response includes the remaining quota.
        let taken = handle.try_take().subject(subject).with_readings().await?;
        Ok(matches!(taken, Taken::Granted(_)))
    }
}
