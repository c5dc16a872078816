//! What the process that runs a pipeline knows beside its jobs, for commands in other processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollway_core::Name;

use super::alarm::Alarm;
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
    /// The conditions that are true now and need a human. Earlier versions do not say them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<AlarmView>,
}

/// An alarm, as it appears in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmView {
    /// Its name, for machines.
    pub alarm: String,
    /// The stage it is about.
    pub stage: Option<Name>,
    /// What it says.
    pub text: String,
}

impl AlarmView {
    /// An alarm as data.
    pub fn of(alarm: &Alarm) -> Self {
        Self { alarm: alarm.name().to_owned(), stage: alarm.stage().cloned(), text: alarm.to_string() }
    }

    /// The same for people who may not see errors, which may quote the data of jobs: an error stands behind a colon.
    #[must_use]
    pub fn without_error(mut self) -> Self {
        if let Some((before, _)) = self.text.split_once(": ") {
            self.text = before.to_owned();
        }
        self
    }
}

impl RunnerView {
    /// The same with `instead` in place of errors, for people who may not see them.
    #[must_use]
    pub fn without_errors(mut self, instead: &str) -> Self {
        self.unreachable.values_mut().for_each(|outage| outage.error = instead.to_owned());
        Self {
            last_error: None,
            alarms: self.alarms.into_iter().map(AlarmView::without_error).collect(),
            ..self
        }
    }

    pub(super) fn of(own: &OwnEvents, unreachable: &UnreachableHandlers, alarms: &[Alarm]) -> Self {
        let stages = own.by_stage().into_keys();
        let calls = stages.filter_map(|stage| own.call_times(&stage).map(|calls| (stage, calls)));
        let alarms = alarms.iter().map(AlarmView::of).collect();
        Self {
            unreachable: unreachable.known(),
            calls: calls.collect(),
            last_error: own.last_error(),
            alarms,
        }
    }
}
