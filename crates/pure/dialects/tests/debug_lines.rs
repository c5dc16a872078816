//! Nonsense is ignored with a debug line. Alone in its program: other tests would register the same call sites.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, StatusCode};
use tollway_dialects::{Dialect, VendorResponse};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the text of every event.
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        assert_eq!(*event.metadata().level(), Level::DEBUG);
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

fn lines_of(dialect: &str, headers: &[(&'static str, &'static str)], body: &str) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    tracing::subscriber::with_default(Lines(lines.clone()), || {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let response = VendorResponse { status, headers: &map, body: body.as_bytes() };
        Dialect::by_name(dialect).unwrap().observe(&response)
    });
    Arc::into_inner(lines).unwrap().into_inner().unwrap()
}

#[test]
fn nonsense_is_reported_at_debug_level_and_nothing_else_is() {
    let sane = [("date", "Mon, 02 Mar 2026 10:00:00 GMT"), ("retry-after", "5"), ("x-ratelimit-limit", "5")];
    assert_eq!(lines_of("x-ratelimit", &sane, ""), [""; 0]);

    let wrong = lines_of("x-ratelimit", &[("retry-after", "soon"), ("x-ratelimit-limit", "many")], "");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(
        wrong.iter().any(|line| line.contains("x-ratelimit-limit") && line.contains("many")),
        "{wrong:?}"
    );
    assert!(wrong.iter().any(|line| line.contains("soon")), "{wrong:?}");

    let malformed = lines_of("ietf", &[("ratelimit", "\"broken;r=1")], "");
    assert!(malformed.len() == 1 && malformed[0].contains("structured field"), "{malformed:?}");

    let hostile = lines_of("discord", &[], r#"{"retry_after": "\u001b[31m\nsoon"}"#);
    assert!(hostile.len() == 1 && !hostile[0].contains(char::is_control), "{hostile:?}");
}
