//! What is said in the log as a warning, or louder.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test file uses a part of it"
)]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Hears warnings and errors.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    /// How many of them have this in their message or one of their fields.
    pub fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| said.contains(text)).count()
    }

    /// Whether one of them has all of these.
    pub fn said(&self, texts: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|said| texts.iter().all(|text| said.contains(text)))
    }
}

/// A message and its fields as one line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("tollway")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
