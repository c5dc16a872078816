//! Admits consumers: whether one may call at all, and under which limits.
//!
//! `policies` builds policies from limits, `counters` reads and resets usage, `reset_once` tracks which consumers without
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

/// Why a gate cannot be built.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A default amount is invalid.
    #[error(transparent)]
    Default(#[from] AmountError),
    /// The limiter already has a policy with the consumers' name.
    #[error(transparent)]
    Policy(#[from] BindError),
}

tollway_core::debug_as_display!(GateError);

impl Gate {
    /// A gate that counts with `limiter`, under the limits of these records.
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
        // Register all six periods now, so that metrics show them before their first denial.
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

    /// The records.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.records
    }

    /// Whether consumers are limited at all: the master switch.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The limits in force for a consumer now.
    pub async fn active(&self, consumer: &ConsumerId) -> Result<Arc<Active>, RecordsError> {
        self.active.active(consumer, self.limiter.clock().now()).await
    }

    /// The limits in force for a consumer in any hour. Bypasses the cache.
    pub async fn active_in(&self, consumer: &ConsumerId, hour: Hour) -> Result<Active, RecordsError> {
        let kept = self.records.consumer(consumer).await?;
        Ok(Active::of(&kept.records, hour, &self.defaults, kept.blocked))
    }

    /// Admits a consumer now; the subject of a take under the policy is the consumer's id. While the records cannot be read,
    /// `when_store_fails` decides: `open` counts nothing, `local` applies the defaults, `closed` is an error.
    ///
    /// More lookups than the records can serve may be an attack. Then `open` applies the defaults, too, and is an error if
    /// they are unlimited.
    pub async fn admission(&self, consumer: &ConsumerId) -> Result<Admission<PolicyHandle>, RecordsError> {
        if !self.enabled {
            return Ok(Admission::Free);
        }
        // Read the generation before the records: a reset must never use records older than it.
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
            // A flood of invented names must not turn limits off.
            _ if busy && defaults.is_unlimited() => Err(error),
            WhenStoreFails::Open if !busy => Ok(Admission::Free),
            WhenStoreFails::Open | WhenStoreFails::Local => self.limited(defaults, false),
        }
    }

    /// With stale records no counter is removed: other servers may enforce newer limits.
    fn limited(&self, limits: CallLimits, current: bool) -> Result<Admission<PolicyHandle>, RecordsError> {
        let policy = self.policies.find(&self.limiter, limits, current);
        let policy = policy.map_err(|error| RecordsError::no_policy(&error))?;
        Ok(policy.map_or(Admission::Free, Admission::Counted))
    }

    /// A consumer without limits keeps no counters. Its takes remove the counters of single periods.
    async fn reset_unlimited(&self, consumer: &ConsumerId, hour: Hour, generation: u64) {
        if self.reset_once.is_first(consumer, hour, generation)
            && let Err(error) = self.reset(consumer).await
        {
            tracing::debug!(%error, "cannot reset the counters of a consumer without limits; they stay until they expire");
        }
    }
}
