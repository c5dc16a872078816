//! What a take tells a tracing subscriber: one span with the policy's name, and nothing that a caller chose.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollway::Limiter;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes every span and event as a line of text.
#[derive(Clone, Default)]
struct Written {
    lines: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Written {
    fn push(&self, line: Line) {
        self.lines.lock().unwrap().push(line.0);
    }
}

impl Subscriber for Written {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tollway")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("span {}", span.metadata().name()));
        span.record(&mut line);
        self.push(line);
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("event {}", event.metadata().level()));
        event.record(&mut line);
        self.push(line);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_take_is_one_span_with_the_policys_name() {
    tollway_testkit::keep_callsites_enabled();
    let written = Written::default();
    let _guard = tracing::subscriber::set_default(written.clone());
    let limiter = Limiter::builder().policy("adobe", ["5 / day from first call"]).unwrap().build();
    drop(limiter.take("adobe").subject("\x1b[31mteam-a\r\n").await.unwrap());
    let lines = written.lines.lock().unwrap().clone();
    assert_eq!(lines, ["span take policy=adobe"], "T23: no subject, which callers choose");
}

/// A failing store is logged with its cause.
#[tokio::test]
async fn a_failing_store_logs_a_warning() {
    use tollway::core::{Answer, Fault, Operation, Retry};
    struct Away;
    impl tollway::Store for Away {
        fn apply(&self, _: &[Operation]) -> Answer {
            let message = "connection refused".to_owned();
            Answer::now(Err(tollway::StoreError { fault: Fault::Network, retry: Retry::Safe, message }))
        }
    }
    tollway_testkit::keep_callsites_enabled();
    let written = Written::default();
    let _guard = tracing::subscriber::set_default(written.clone());
    let limiter = Limiter::builder().policy("adobe", ["50 / day"]).unwrap().store(Arc::new(Away)).build();
    assert!(limiter.try_take("adobe").await.unwrap().is_granted());
    let lines = written.lines.lock().unwrap().clone();
    assert!(
        lines.iter().any(|line| line.starts_with("event WARN") && line.contains("connection refused")),
        "{lines:?}"
    );
}
