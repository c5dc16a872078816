//! Alarms, and the end of a backlog, to the log, and to the webhook and the topic of the config.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tollway::Limiter;

use crate::failure::{Exit, Failure};

/// How long the last events may take to be sent.
const FLUSH_WITHIN: Duration = Duration::from_secs(15);

/// How long the start waits until destinations have answered.
#[cfg(feature = "webhook")]
const CHECK_WITHIN: Duration = Duration::from_secs(2);

/// How often alarms of the store are looked for.
#[cfg(feature = "webhook")]
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sends events. Those of the store are logged by the limiter itself.
pub(crate) struct Notices {
    /// What sends: a pipeline, or `serve`.
    pub(crate) origin: String,
    #[cfg(feature = "webhook")]
    senders: Vec<tollway_notify::webhook::EventSender>,
}

impl Notices {
    /// To the webhook and the topic of `[incidents]`, if the config names them.
    #[cfg(feature = "webhook")]
    pub(crate) fn new(origin: &str, limiter: &Limiter) -> Result<Arc<Self>, Failure> {
        let senders =
            tollway_notify::webhook::senders(limiter, tollway_notify::webhook::SendOptions::default());
        let senders = senders.map_err(|error| Failure::new(Exit::CONFIG, error))?;
        Ok(Arc::new(Self { origin: origin.to_owned(), senders }))
    }

    /// To the log. A config with a webhook or a topic was refused before.
    #[cfg(not(feature = "webhook"))]
    pub(crate) fn new(origin: &str, _: &Limiter) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self { origin: origin.to_owned() }))
    }

    /// Says at the start, and not with the first alarm, that a destination is not there.
    #[cfg(feature = "webhook")]
    pub(crate) async fn check(&self) {
        for sender in &self.senders {
            match tokio::time::timeout(CHECK_WITHIN, sender.check()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "incidents and alarms are not sent"),
                Err(_) => tracing::debug!("a destination of incidents did not answer yet"),
            }
        }
    }

    #[cfg(not(feature = "webhook"))]
    pub(crate) async fn check(&self) {}

    /// Sends alarms of the store until the task is aborted; none if there is no destination.
    #[cfg(feature = "webhook")]
    pub(crate) fn watch_store(self: &Arc<Self>, limiter: &Limiter) -> Option<JoinHandle<()>> {
        if self.senders.is_empty() {
            return None;
        }
        let (notices, limiter) = (Arc::clone(self), limiter.clone());
        Some(tokio::spawn(async move {
            let mut watch = tollway_notify::webhook::StoreAlarmWatch::new(&limiter, &notices.origin);
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                watch.look().into_iter().for_each(|event| notices.send_event(&event));
            }
        }))
    }

    #[cfg(not(feature = "webhook"))]
    pub(crate) fn watch_store(self: &Arc<Self>, _: &Limiter) -> Option<JoinHandle<()>> {
        None
    }

    #[cfg(feature = "webhook")]
    #[cfg_attr(
        not(feature = "pipeline"),
        expect(dead_code, reason = "only pipelines have events of their own")
    )]
    pub(crate) fn send(&self, kind: &'static str, group: &str, detail: Value) {
        use tollway::Clock;

        let now = tollway_memory::WallClock.now();
        self.send_event(&tollway_notify::webhook::Event {
            kind,
            group: group.to_owned(),
            id: format!("{:016x}", now.as_micros()),
            first_at: now,
            last_at: now,
            count: 1,
            detail,
        });
    }

    #[cfg(not(feature = "webhook"))]
    #[cfg_attr(
        not(feature = "pipeline"),
        expect(dead_code, reason = "only pipelines have events of their own")
    )]
    pub(crate) fn send(&self, _: &'static str, _: &str, _: Value) {}

    #[cfg(feature = "webhook")]
    fn send_event(&self, event: &tollway_notify::webhook::Event) {
        self.senders.iter().for_each(|sender| sender.send_event(event.clone()));
    }

    /// Waits a while until all is sent.
    #[cfg(feature = "webhook")]
    pub(crate) async fn close(self: Arc<Self>) {
        use tollway::incident::IncidentSink;

        let flushed = tokio::task::spawn_blocking(move || {
            // Each has its time, whatever became of the others.
            let flushed: Vec<bool> = self.senders.iter().map(|sender| sender.flush(FLUSH_WITHIN)).collect();
            !flushed.contains(&false)
        });
        if !flushed.await.unwrap_or(false) {
            tracing::warn!("the last events were not sent in time");
        }
    }

    #[cfg(not(feature = "webhook"))]
    pub(crate) async fn close(self: Arc<Self>) {
        let _ = FLUSH_WITHIN;
    }
}
