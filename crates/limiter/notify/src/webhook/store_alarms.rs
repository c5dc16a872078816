//! Alarms of a limiter's store as events: one when an alarm is raised, one when it is over.

use serde_json::json;
use tollway::alarm::StoreAlarm;
use tollway::{Limiter, Timestamp};

use crate::webhook::event::Event;

/// Notices when alarms of a limiter's store begin and end. Look once a second.
pub struct StoreAlarmWatch {
    limiter: Limiter,
    /// What events name as their origin: `serve`, or the pipeline.
    origin: String,
    current: Vec<StoreAlarm>,
}

impl StoreAlarmWatch {
    /// Watches this limiter.
    pub fn new(limiter: &Limiter, origin: &str) -> Self {
        Self { limiter: limiter.clone(), origin: origin.to_owned(), current: Vec::new() }
    }

    /// What has changed since the last look.
    pub fn look(&mut self) -> Vec<Event> {
        let (found, now) = (self.limiter.store_alarms(), self.limiter.clock().now());
        let raised = found.iter().filter(|alarm| !self.current.contains(alarm));
        let over = self.current.iter().filter(|alarm| !found.contains(alarm));
        let raised = raised.map(|alarm| self.event("alarm", *alarm, now));
        let events = raised.chain(over.map(|alarm| self.event("alarm_over", *alarm, now))).collect();
        self.current = found;
        events
    }

    fn event(&self, kind: &'static str, alarm: StoreAlarm, now: Timestamp) -> Event {
        Event {
            kind,
            group: format!("{}/{}", self.origin, alarm.name()),
            id: format!("{:016x}", now.as_micros()),
            first_at: now,
            last_at: now,
            count: 1,
            detail: json!({ "origin": self.origin, "alarm": alarm.name(), "text": alarm.to_string() }),
        }
    }
}
