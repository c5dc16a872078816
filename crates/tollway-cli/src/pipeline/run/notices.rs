//! Alarms, and the end of a backlog, to the log and to the webhook of the config.

use std::time::Duration;

use serde_json::{Value, json};
use tollway::Limiter;
use tollway_pipeline::run::alarm::{Alarm, AlarmSink};

use super::summary::Summary;
use crate::failure::{Exit, Failure};

/// How long the last events may take to be sent.
const FLUSH_WITHIN: Duration = Duration::from_secs(15);

/// Sends alarms and the end of a backlog.
pub(super) struct Notices {
    pipeline: String,
    #[cfg(feature = "webhook")]
    webhook: Option<tollway_webhook::Webhook>,
}

impl Notices {
    /// To the log; and to the webhook of `[incidents]`, if the config names one.
    #[cfg(feature = "webhook")]
    pub(super) fn new(pipeline: &str, limiter: &Limiter) -> Result<Self, Failure> {
        use tollway_webhook::{Webhook, WebhookOptions};

        let config = limiter.incidents_config().webhook();
        let webhook = config.map(|config| Webhook::new(config, WebhookOptions::default())).transpose();
        let webhook = webhook.map_err(|error| Failure::new(Exit::CONFIG, error))?;
        Ok(Self { pipeline: pipeline.to_owned(), webhook })
    }

    /// To the log. A config with a webhook was refused before.
    #[cfg(not(feature = "webhook"))]
    pub(super) fn new(pipeline: &str, _: &Limiter) -> Result<Self, Failure> {
        Ok(Self { pipeline: pipeline.to_owned() })
    }

    /// The backlog is done, or was stopped.
    pub(super) fn finished(&self, summary: &Summary) {
        let kind = if summary.is_done() { "pipeline_done" } else { "pipeline_stopped" };
        tracing::info!(pipeline = self.pipeline, "{}", summary.sentence());
        self.send(kind, "", summary.to_json());
    }

    fn alarm(&self, kind: &'static str, alarm: &Alarm) {
        let stage = alarm.stage().map(ToString::to_string);
        let group = format!("{}/{}/{}", self.pipeline, stage.as_deref().unwrap_or(""), alarm.name());
        let detail = json!({
            "pipeline": self.pipeline, "alarm": alarm.name(), "stage": stage, "text": alarm.to_string(),
        });
        self.send(kind, &group, detail);
    }

    #[cfg(feature = "webhook")]
    fn send(&self, kind: &'static str, group: &str, detail: Value) {
        use tollway::Clock;

        if let Some(webhook) = &self.webhook {
            let now = tollway_memory::WallClock.now();
            webhook.send_event(tollway_webhook::Event {
                kind,
                group: group.to_owned(),
                id: format!("{:016x}", now.as_micros()),
                first_at: now,
                last_at: now,
                count: 1,
                detail,
            });
        }
    }

    #[cfg(not(feature = "webhook"))]
    fn send(&self, _: &'static str, _: &str, _: Value) {}

    /// Waits a while until all is sent.
    #[cfg(feature = "webhook")]
    pub(super) async fn close(self: std::sync::Arc<Self>) {
        use tollway::incident::IncidentSink;

        let flushed = tokio::task::spawn_blocking(move || {
            self.webhook.as_ref().is_none_or(|webhook| webhook.flush(FLUSH_WITHIN))
        });
        if !flushed.await.unwrap_or(false) {
            tracing::warn!("the webhook did not take the last events in time");
        }
    }

    #[cfg(not(feature = "webhook"))]
    pub(super) async fn close(self: std::sync::Arc<Self>) {
        let _ = FLUSH_WITHIN;
    }
}

impl AlarmSink for Notices {
    fn raised(&self, alarm: &Alarm) {
        tracing::error!(pipeline = self.pipeline, "alarm: {alarm}");
        self.alarm("alarm", alarm);
    }

    fn over(&self, alarm: &Alarm) {
        tracing::info!(pipeline = self.pipeline, "alarm is over: {alarm}");
        self.alarm("alarm_over", alarm);
    }
}
