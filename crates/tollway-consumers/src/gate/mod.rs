//! Admits consumers: whether one may call at all, and under which limits.
//!
//! `policies` makes policies of limits, `counters` reads and resets usage, `reset_once` remembers which consumers without
//! limits had their counters reset.

mod counters;
mod policies;
mod reset_once;

use std::sync::Arc;

use tokio::sync::watch;
use tollway::core::WhenStoreFails;
use tollway::{BindError, Limiter, PolicyHandle};
use tollway_inbound::Admission;

pub use counters::Counter;

use crate::{
    Active, ActiveCache, AmountError, Amounts, CallLimits, ConsumerId, ConsumersConfig, Generation, Hour,
    Records, RecordsError, RecordsFault,
};
use policies::Policies;
use reset_once::ResetOnce;

/// Admits consumers by their records.
pub struct Gate {
    limiter: Limiter,
    records: Arc<dyn Records>,
    changes: watch::Receiver<Generation>,
    active: ActiveCache,
    policies: Policies,
    reset_once: ResetOnce,
    defaults: Amounts,
    when_store_fails: WhenStoreFails,
    enabled: bool,
}

/// Why there is no gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A default is wrong.
    #[error(transparent)]
    Default(#[from] AmountError),
    /// The limiter has a policy of the name that those of consumers have.
    #[error(transparent)]
    Policy(#[from] BindError),
}

impl Gate {
    /// A gate to what `limiter` counts, by these records.
    pub fn new(
        limiter: Limiter,
        records: Arc<dyn Records>,
        config: &ConsumersConfig,
    ) -> Result<Self, GateError> {
        let defaults = Amounts::new(config.defaults)?;
        let active = ActiveCache::new(Arc::clone(&records), defaults);
        Self::with(limiter, records, active, config)
    }

    /// A gate for a changed config that keeps this one's cache.
    pub fn under(&self, config: &ConsumersConfig) -> Result<Self, GateError> {
        let active = self.active.under(Amounts::new(config.defaults)?);
        Self::with(self.limiter.clone(), Arc::clone(&self.records), active, config)
    }

    fn with(
        limiter: Limiter,
        records: Arc<dyn Records>,
        active: ActiveCache,
        config: &ConsumersConfig,
    ) -> Result<Self, GateError> {
        let defaults = Amounts::new(config.defaults)?;
        let policies = Policies::new(config.when_store_fails);
        // Metrics show all six periods from the start, and not each with its first denial.
        policies.find(&limiter, counters::every_period(), true)?;
        Ok(Self {
            changes: records.changes(),
            active,
            policies,
            reset_once: ResetOnce::default(),
            when_store_fails: config.when_store_fails,
            enabled: config.enabled,
            limiter,
            records,
            defaults,
        })
    }

    /// Its records.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.records
    }

    /// Whether consumers are limited at all: the master switch.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// What is in force for a consumer now.
    pub async fn active(&self, consumer: &ConsumerId) -> Result<Arc<Active>, RecordsError> {
        self.active.active(consumer, self.limiter.clock().now()).await
    }

    /// What is in force for a consumer in any hour. Reads the records, not the cache.
    pub async fn active_in(&self, consumer: &ConsumerId, hour: Hour) -> Result<Active, RecordsError> {
        let kept = self.records.consumer(consumer).await?;
        Ok(Active::of(&kept.records, hour, &self.defaults, kept.blocked))
    }

    /// What a consumer may do now; the subject of a take under the policy is the consumer's id. While the records cannot be
    /// read, `when_store_fails` of the config decides: with `open` nothing is counted, with `local` the defaults are in force,
    /// and with `closed` this is an error.
    ///
    /// More consumers than can be looked up at once may be an attack: then the defaults are in force with `open`, too, and
    /// where they limit nothing this is an error.
    pub async fn admission(&self, consumer: &ConsumerId) -> Result<Admission<PolicyHandle>, RecordsError> {
        if !self.enabled {
            return Ok(Admission::Free);
        }
        // Read before the records: a reset must never go by records older than this generation.
        let generation = self.changes.borrow().number;
        match self.active(consumer).await {
            Ok(active) if active.blocked => Ok(Admission::Blocked),
            Ok(active) if active.limits.is_unlimited() => {
                if active.current {
                    self.reset_unlimited(consumer, active.hour, generation).await;
                }
                Ok(Admission::Free)
            }
            Ok(active) => self.limited(active.limits, active.current),
            Err(error) => self.without_records(error),
        }
    }

    fn without_records(&self, error: RecordsError) -> Result<Admission<PolicyHandle>, RecordsError> {
        let (busy, defaults) = (error.fault == RecordsFault::Busy, CallLimits::sum([&self.defaults]));
        match self.when_store_fails {
            WhenStoreFails::Closed => Err(error),
            // A flood of names must not turn limits off.
            _ if busy && defaults.is_unlimited() => Err(error),
            WhenStoreFails::Open if !busy => Ok(Admission::Free),
            WhenStoreFails::Open | WhenStoreFails::Local => self.limited(defaults, false),
        }
    }

    /// With records that may be stale no counter is forgotten: other servers may go by the new ones.
    fn limited(&self, limits: CallLimits, current: bool) -> Result<Admission<PolicyHandle>, RecordsError> {
        let policy = self.policies.find(&self.limiter, limits, current);
        let policy = policy.map_err(|error| RecordsError::no_policy(&error))?;
        Ok(policy.map_or(Admission::Free, Admission::Counted))
    }

    /// A consumer without limits keeps no counters. Counters of single periods are removed by its takes.
    async fn reset_unlimited(&self, consumer: &ConsumerId, hour: Hour, generation: u64) {
        if self.reset_once.is_first(consumer, hour, generation)
            && let Err(error) = self.reset(consumer).await
        {
            tracing::debug!(%error, "cannot reset the counters of a consumer without limits; they stay until they expire");
        }
    }
}
