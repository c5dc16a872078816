//! What stands between a consumer and its takes: whether it may call at all, and under which limits.
//!
//! `policies` makes policies of limits, `swept` remembers whose counters are gone because nothing limits them any more.

mod counters;
mod policies;
mod swept;

use std::sync::Arc;

use tokio::sync::watch;
use tollway::core::WhenStoreFails;
use tollway::{BindError, Limiter, PolicyHandle};

pub use counters::Counter;

use crate::{
    Active, ActiveCache, AmountError, Amounts, CallLimits, ConsumerId, ConsumersConfig, Generation, Hour,
    Records, RecordsError, RecordsFault,
};
use policies::Policies;
use swept::Swept;

/// Whether a consumer may call, and under which limits.
#[derive(Clone)]
pub enum Standing {
    /// It may, and nothing is counted.
    Unlimited,
    /// It may not.
    Blocked,
    /// It may as far as a take under this policy is granted. The subject is the consumer's id.
    Limited(PolicyHandle),
}

/// Knows where consumers stand.
pub struct Gate {
    limiter: Limiter,
    records: Arc<dyn Records>,
    changes: watch::Receiver<Generation>,
    active: ActiveCache,
    policies: Policies,
    swept: Swept,
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

    /// The gate that follows this one when the config has changed: it knows of every consumer what this one does.
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
        // Whoever watches sees all six periods from the first moment, and not each with its first denial.
        policies.find(&limiter, counters::every_period(), true)?;
        Ok(Self {
            changes: records.changes(),
            active,
            policies,
            swept: Swept::default(),
            when_store_fails: config.when_store_fails,
            enabled: config.enabled,
            limiter,
            records,
            defaults,
        })
    }

    /// The records that it goes by.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.records
    }

    /// Whether anybody is limited at all: the master switch.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// What is in force for a consumer now.
    pub async fn active(&self, consumer: &ConsumerId) -> Result<Arc<Active>, RecordsError> {
        self.active.active(consumer, self.limiter.clock().now()).await
    }

    /// What is in force for a consumer in an hour, this one or any other. Read, not remembered.
    pub async fn active_in(&self, consumer: &ConsumerId, hour: Hour) -> Result<Active, RecordsError> {
        let kept = self.records.consumer(consumer).await?;
        Ok(Active::of(&kept.records, hour, &self.defaults, kept.blocked))
    }

    /// Where a consumer stands. While nobody can tell, what the config says for a store that fails decides: with `open` it
    /// is unlimited, with `local` the defaults are in force, and with `closed` this is an error.
    ///
    /// When more consumers are asked for than can be looked up, that is nobody's failure but perhaps somebody's intention:
    /// then the defaults are in force with `open`, too, and where they limit nothing this is an error.
    pub async fn standing(&self, consumer: &ConsumerId) -> Result<Standing, RecordsError> {
        if !self.enabled {
            return Ok(Standing::Unlimited);
        }
        // Before the records are looked at: what is swept by it is never older than what was known then.
        let generation = self.changes.borrow().number;
        match self.active(consumer).await {
            Ok(active) if active.blocked => Ok(Standing::Blocked),
            Ok(active) if active.limits.is_unlimited() => {
                if active.current {
                    self.sweep(consumer, active.hour, generation).await;
                }
                Ok(Standing::Unlimited)
            }
            Ok(active) => self.limited(active.limits, active.current),
            Err(error) => self.without_records(error),
        }
    }

    fn without_records(&self, error: RecordsError) -> Result<Standing, RecordsError> {
        let (busy, defaults) = (error.fault == RecordsFault::Busy, CallLimits::sum([&self.defaults]));
        match self.when_store_fails {
            WhenStoreFails::Closed => Err(error),
            // A flood of names must not turn limits off.
            _ if busy && defaults.is_unlimited() => Err(error),
            WhenStoreFails::Open if !busy => Ok(Standing::Unlimited),
            WhenStoreFails::Open | WhenStoreFails::Local => self.limited(defaults, false),
        }
    }

    /// Who does not know what the records say now forgets no counter: others may go by them.
    fn limited(&self, limits: CallLimits, current: bool) -> Result<Standing, RecordsError> {
        let policy = self.policies.find(&self.limiter, limits, current);
        let policy = policy.map_err(|error| RecordsError::no_policy(&error))?;
        Ok(policy.map_or(Standing::Unlimited, Standing::Limited))
    }

    /// With the last limit of a consumer goes its last counter (C3). Those of single periods go with its takes.
    async fn sweep(&self, consumer: &ConsumerId, hour: Hour, generation: u64) {
        if self.swept.is_first(consumer, hour, generation)
            && let Err(error) = self.reset(consumer).await
        {
            tracing::debug!(%error, "the counters of a consumer without limits stay until they end by themselves");
        }
    }
}
