//! What the process that runs a pipeline knows beside its jobs, for commands in other processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollway_core::Name;

use super::own_events::{CallTimes, LastError, OwnEvents};
use super::unreachable::{HandlerOutage, UnreachableHandlers};

/// What one process knows that runs a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerView {
    /// Stages whose handlers it cannot reach.
    pub unreachable: BTreeMap<Name, HandlerOutage>,
    /// How long the last calls of each stage took.
    pub calls: BTreeMap<Name, CallTimes>,
    /// The newest error of all stages.
    pub last_error: Option<LastError>,
}

impl RunnerView {
    pub(super) fn of(own: &OwnEvents, unreachable: &UnreachableHandlers) -> Self {
        let stages = own.by_stage().into_keys();
        let calls = stages.filter_map(|stage| own.call_times(&stage).map(|calls| (stage, calls)));
        Self { unreachable: unreachable.known(), calls: calls.collect(), last_error: own.last_error() }
    }
}
