//! Consumers: callers with their own limits. Only with the feature `consumers`.
//!
//! `admission` decides how a consumer's request or descriptor counts. `routes` and `management` are what operators ask for,
//! and `documented` and `neutral` the two shapes of its JSON. `problem` has the errors.

mod admission;
mod documented;
pub(crate) mod fuzz;
mod management;
mod management_json;
mod neutral;
mod problem;
mod routes;

use std::rc::Rc;
use std::sync::Arc;

use tollway_consumers::{ConsumerId, ConsumersConfig, Gate, GateError, Records, RecordsError, Who};
use tollway_inbound::{Admission, CONSUMERS_POLICY};

pub(crate) use management::manage;
pub(crate) use routes::{JsonShape, Management, ROUTES, describe};

use crate::known_policies::KnownPolicy;
use crate::server::ServerState;
use crate::{ServeError, Server};

/// Everything about consumers that a reload can change.
pub(crate) struct Consumers {
    gate: Gate,
    who: Who,
}

impl ServerState {
    /// The consumers, if they are configured.
    pub(crate) fn consumers(&self) -> Option<Arc<Consumers>> {
        self.consumers.load_full()
    }
}

impl Server {
    /// Adds consumers with these records. Reads the tokens that the config names.
    pub fn with_consumers(
        self,
        records: Arc<dyn Records>,
        config: &ConsumersConfig,
    ) -> Result<Self, ServeError> {
        let gate = Gate::new(self.state.limiter.clone(), records, config);
        let consumers = Consumers::with(gate, config)?;
        self.state.consumers.store(Some(Arc::new(consumers)));
        Ok(self)
    }
}

impl Consumers {
    /// The consumers under a changed config. Cached consumers stay cached.
    pub(crate) fn under(&self, config: &ConsumersConfig) -> Result<Self, ServeError> {
        Self::with(self.gate.under(config), config)
    }

    fn with(gate: Result<Gate, GateError>, config: &ConsumersConfig) -> Result<Self, ServeError> {
        let gate = gate.map_err(|error| ServeError::Consumers(error.to_string()))?;
        let who = Who::new(&config.who).map_err(|error| ServeError::Consumers(error.to_string()))?;
        Ok(Self { gate, who })
    }

    /// Whether this consumer may call, and under which policy. Its id is the subject.
    async fn admission(
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
