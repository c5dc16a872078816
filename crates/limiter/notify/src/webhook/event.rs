//! An event: one incident, or several of the same kind and policy.

use serde_json::{Value, json};
use tollway::Timestamp;
use tollway::incident::Incident;

/// Kinds of events that tell a state. A receiver that misses the last one shows an alarm for ever, or none.
const STATES: [&str; 2] = ["alarm", "alarm_over"];

/// What is sent in one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened, as in the header `Tollway-Event`; also the name of the detail in the body.
    pub kind: &'static str,
    /// Events of the same kind and group are merged: of incidents, the policy.
    pub group: String,
    /// The id of the first.
    pub id: String,
    /// When the first happened.
    pub first_at: Timestamp,
    /// When the last happened.
    pub last_at: Timestamp,
    /// How many there were.
    pub count: u64,
    /// The first, in full.
    pub detail: Value,
}

impl Event {
    /// The event of one incident.
    pub fn incident(incident: &Incident) -> Self {
        Self {
            kind: "incident",
            group: incident.policy.to_string(),
            id: incident.id.clone(),
            first_at: incident.at,
            last_at: incident.at,
            count: 1,
            // Only a map with keys that are not strings could fail.
            detail: serde_json::to_value(incident).unwrap_or_default(),
        }
    }

    /// Whether it tells a state of its group, as `alarm` and `alarm_over` do: the last one says how things are now.
    pub(crate) fn is_state(&self) -> bool {
        STATES.contains(&self.kind)
    }

    /// Whether both are told as one.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.group == other.group
    }

    /// Adds another one, which happened later.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.last_at = self.last_at.max(other.last_at);
    }

    /// The body of its request.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.summary();
        if let Value::Object(fields) = &mut body {
            fields.insert(self.kind.to_owned(), self.detail.clone());
        }
        body.to_string().into_bytes()
    }

    /// The same for a receiver that does not take as much.
    #[cfg(feature = "aws")]
    pub(crate) fn body_without_detail(&self) -> Vec<u8> {
        self.summary().to_string().into_bytes()
    }

    fn summary(&self) -> Value {
        json!({
            "event": self.kind,
            "id": self.id,
            "count": self.count,
            "first_at": self.first_at.to_string(),
            "last_at": self.last_at.to_string(),
        })
    }
}
