//! Consumers: who they are, and what they may.

use std::rc::Rc;
use std::sync::Arc;

use tollway::Limiter;
use tollway_consumers::{
    CONSUMERS_POLICY, ConsumerId, ConsumersConfig, Gate, GateError, Records, RecordsError, Standing, Who,
};

use crate::ServeError;
use crate::known::Known;
use crate::server::Shared;

/// Everything about consumers that a reload can change.
pub(crate) struct Consumers {
    pub(crate) gate: Gate,
    pub(crate) who: Who,
}

/// What a call of a consumer comes to.
pub(crate) enum Call {
    /// It is let through, and nothing is counted.
    Free,
    /// It is refused, whatever its limits.
    Blocked,
    /// It is counted under this policy, with the consumer's id as the subject.
    Counted(Rc<Known>),
}

impl Consumers {
    /// Reads the tokens that the config names.
    pub(crate) fn new(
        limiter: &Limiter,
        records: &Arc<dyn Records>,
        config: &ConsumersConfig,
    ) -> Result<Self, ServeError> {
        Self::with(Gate::new(limiter.clone(), Arc::clone(records), config), config)
    }

    /// What follows these when the config has changed. What is known of consumers stays known.
    pub(crate) fn under(&self, config: &ConsumersConfig) -> Result<Self, ServeError> {
        Self::with(self.gate.under(config), config)
    }

    fn with(gate: Result<Gate, GateError>, config: &ConsumersConfig) -> Result<Self, ServeError> {
        let gate = gate.map_err(|error| ServeError::Consumers(error.to_string()))?;
        let who = Who::new(&config.who).map_err(|error| ServeError::Consumers(error.to_string()))?;
        Ok(Self { gate, who })
    }

    /// What a call of this consumer comes to.
    pub(crate) async fn call(&self, shared: &Shared, consumer: &ConsumerId) -> Result<Call, RecordsError> {
        Ok(match self.gate.standing(consumer).await? {
            Standing::Unlimited => Call::Free,
            Standing::Blocked => Call::Blocked,
            Standing::Limited(handle) => {
                let headers = shared.rules().headers_of(CONSUMERS_POLICY);
                Call::Counted(Rc::new(Known { policy: handle.policy(), handle, headers }))
            }
        })
    }
}
