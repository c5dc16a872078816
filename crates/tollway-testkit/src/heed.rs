//! Log lines that a test is sure to hear.

use std::sync::LazyLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Listens to everything and keeps nothing.
struct Heed;

impl Subscriber for Heed {
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

/// Two, because `tracing` asks all who listen whether they want a line only if there are at least two; one alone is asked
/// only on its own thread.
static HEEDED: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [Dispatch::new(Heed), Dispatch::new(Heed)]);

/// From here on no log line of this process is switched off for good.
///
/// `tracing` asks at the first use of a line whether anybody listens, and remembers the answer. If that first use is on the
/// thread of another test, which does not listen, the line stays silent for the test that does. So a test that reads the
/// log, and those that run beside it, call this before anything else.
pub fn heed_every_line() {
    LazyLock::force(&HEEDED);
}
