//! The webhook against a receiver on a real socket.

mod alarms;
mod config;
mod delivery;
mod merging;
mod python;
mod receiver;
mod sns;

use std::sync::Arc;
use std::time::Duration;

use tollway::config::WebhookConfig;
use tollway::incident::{Incident, IncidentSink};
use tollway::{Name, Subject, Timestamp};
use tollway_notify::webhook::{EventSender, SendOptions};

/// Retries quickly and merges nothing that comes later.
fn quick() -> SendOptions {
    SendOptions {
        merge_for: Duration::from_millis(1),
        repeat_after: Duration::ZERO,
        backoff: Duration::from_millis(20),
        ..SendOptions::default()
    }
}

fn webhook(port: u16, options: SendOptions) -> EventSender {
    EventSender::webhook(&WebhookConfig::new(format!("http://127.0.0.1:{port}/hook?a=b"), None), options)
        .unwrap()
}

fn incident(policy: &str, number: u64) -> Arc<Incident> {
    Arc::new(Incident {
        id: format!("{number:016x}"),
        at: Timestamp::from_secs(1_793_628_300 + number),
        policy: Name::new(policy).unwrap(),
        subject: Subject::new("team-ä").unwrap(),
        said: "429 Too Many Requests".to_owned(),
        process: 4711,
        limits: Vec::new(),
        in_flight: 2,
        recent: Vec::new(),
        degraded: false,
    })
}

/// Sends one and waits until it is delivered or dropped.
fn send_one(webhook: &EventSender, policy: &str, number: u64) {
    webhook.send(&incident(policy, number));
    assert!(webhook.flush(Duration::from_secs(20)));
}
