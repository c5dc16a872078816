//! Log lines as JSON objects, for collectors of logs. Their keys stay the same: `time`, `level`, `target`, `message`, `fields`,
//! `spans`.

use std::fmt;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};
use tollway::Clock;
use tollway_memory::WallClock;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{Lines, utc};

/// A line of the log. Keys without a value are left out.
#[derive(Serialize)]
pub(super) struct JsonLine<'a> {
    /// In UTC, to the microsecond.
    time: String,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    level: &'static str,
    /// The module that logs; none of a remark of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    /// What the process was doing, the outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spans: Vec<Value>,
}

impl<'a> JsonLine<'a> {
    pub(super) fn new(level: Level, message: &'a str) -> Self {
        let level = match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let time = utc(WallClock.now()).unwrap_or_default();
        Self { time, level, target: None, message, fields: Map::new(), spans: Vec::new() }
    }

    /// The same with a field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Like the log as text, it has nowhere to report a closed standard error.
    pub(super) fn write(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            let _ = Lines.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Writes every event as a [`JsonLine`].
pub(super) struct JsonLines;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut read = Fields::default();
        attributes.record(&mut read);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(read);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(read) = span.extensions_mut().get_mut::<Fields>() {
            record.record(read);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut read = Fields::default();
        event.record(&mut read);
        let place = event.metadata();
        let around = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = around.map(|span| {
            let fields = span.extensions().get::<Fields>().map(|read| read.fields.clone());
            let mut shown = fields.unwrap_or_default();
            shown.insert("span".to_owned(), span.name().into());
            Value::Object(shown)
        });
        let (target, fields, spans) = (Some(place.target()), read.fields, spans.collect());
        JsonLine { target, fields, spans, ..JsonLine::new(*place.level(), &read.message) }.write();
    }
}

/// The fields of an event or a span.
#[derive(Default)]
struct Fields {
    message: String,
    fields: Map<String, Value>,
}

impl Fields {
    fn note(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.note(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.note(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, unquoted(format!("{value:?}")).into());
    }
}

/// A text that was logged in quotes, for people, without them; as it is if something in it is escaped.
fn unquoted(text: String) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('\\')).map(str::to_owned).unwrap_or(text)
}
