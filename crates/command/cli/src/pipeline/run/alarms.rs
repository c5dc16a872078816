//! Alarms of a pipeline, and its end, to the log and to those who get notices.

use std::sync::Arc;

use serde_json::json;
use tollway_pipeline::run::alarm::{Alarm, AlarmSink};

use super::summary::Summary;
use crate::notices::Notices;

/// Tells operators how a pipeline goes.
pub(super) struct PipelineAlarms(pub(super) Arc<Notices>);

impl PipelineAlarms {
    /// The backlog is done, or was stopped.
    pub(super) fn finished(&self, summary: &Summary) {
        let kind = if summary.is_done() { "pipeline_done" } else { "pipeline_stopped" };
        tracing::info!(pipeline = self.0.origin, "{}", summary.sentence());
        self.0.send(kind, "", summary.to_json());
    }

    fn alarm(&self, kind: &'static str, alarm: &Alarm) {
        let (pipeline, stage) = (&self.0.origin, alarm.stage().map(ToString::to_string));
        let group = format!("{pipeline}/{}/{}", stage.as_deref().unwrap_or(""), alarm.name());
        let detail = json!({
            "pipeline": pipeline, "alarm": alarm.name(), "stage": stage, "text": alarm.to_string(),
        });
        self.0.send(kind, &group, detail);
    }
}

impl AlarmSink for PipelineAlarms {
    fn raised(&self, alarm: &Alarm) {
        tracing::error!(pipeline = self.0.origin, "alarm: {alarm}");
        self.alarm("alarm", alarm);
    }

    fn goes_on(&self, alarm: &Alarm) {
        // Operators were told when it was raised.
        tracing::warn!(pipeline = self.0.origin, "alarm of an earlier run goes on: {alarm}");
    }

    fn over(&self, alarm: &Alarm) {
        tracing::info!(pipeline = self.0.origin, "alarm is over: {alarm}");
        self.alarm("alarm_over", alarm);
    }
}
