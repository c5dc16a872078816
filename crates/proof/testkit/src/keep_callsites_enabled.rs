//! Keeps every log callsite of the process enabled, so that a test sees all log lines.

use std::sync::LazyLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// A subscriber that is interested in everything and drops it.
struct Sink;

impl Subscriber for Sink {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Two, because `tracing` asks every subscriber only if there are at least two; a single one is asked only on its own
/// thread.
static SINKS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [Dispatch::new(Sink), Dispatch::new(Sink)]);

/// Keeps every log callsite of this process enabled from now on.
///
/// `tracing` asks at the first use of a callsite whether a subscriber is interested, and caches the answer. If that first
/// use is on the thread of a test without a subscriber, the callsite stays disabled for every other test. So a test that
/// reads the log, and all tests in the same process, call this first.
pub fn keep_callsites_enabled() {
    LazyLock::force(&SINKS);
}
