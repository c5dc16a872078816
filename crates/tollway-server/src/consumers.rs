//! Consumers: which one calls, and what it may do.

use std::rc::Rc;
use std::sync::Arc;

use tollway::Limiter;
use tollway_consumers::{
    CONSUMERS_POLICY, ConsumerId, ConsumersConfig, Gate, GateError, Records, RecordsError, Who,
};
use tollway_inbound::Admission;

use crate::ServeError;
use crate::known_policies::KnownPolicy;
use crate::server::ServerState;

/// Everything about consumers that a reload can change.
pub(crate) struct Consumers {
    pub(crate) gate: Gate,
    pub(crate) who: Who,
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

    /// Whether this consumer may call, and under which policy; its id is the subject.
    pub(crate) async fn admission(
        &self,
        state: &ServerState,
        consumer: &ConsumerId,
    ) -> Result<Admission<Rc<KnownPolicy>>, RecordsError> {
        let admission = self.gate.admission(consumer).await?;
        Ok(admission.map(|handle| {
            let headers = state.rules().headers_of(CONSUMERS_POLICY);
            Rc::new(KnownPolicy { policy: handle.policy(), handle, headers })
        }))
    }
}
