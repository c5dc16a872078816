//! Bounds how many lines a place in the code may log in a second, because clients can cause some of them at will.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use tollway::Clock;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Enough to see what happens. A client that causes more fills the disk.
const LINES_PER_SECOND_MAX: u64 = 100;

/// Drops lines beyond [`LINES_PER_SECOND_MAX`] of one place in the code in one second, of any crate, and says how many.
///
/// Lines for debugging are requested with `--log-level debug` and pass. The map has at most one entry for each place in the
/// code.
pub(super) struct LineLimit {
    clock: Arc<dyn Clock>,
    /// Writes a line beside the log: a layer cannot log while it handles an event.
    write: Box<WriteLine>,
    places: Mutex<HashMap<Identifier, LinesInSecond>>,
}

type WriteLine = dyn Fn(Level, &str) + Send + Sync;

/// The lines of one place in the code in the second of its last line.
#[derive(Clone, Copy, Debug, Default)]
struct LinesInSecond {
    second: u64,
    lines: u64,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineFate {
    is_written: bool,
    /// The first that is dropped in its second.
    is_first_dropped: bool,
    /// How many were dropped in the last second that had lines.
    dropped_before: u64,
}

impl LinesInSecond {
    fn count(&mut self, second: u64) -> LineFate {
        let mut dropped_before = 0;
        if self.second != second {
            dropped_before = self.lines.saturating_sub(LINES_PER_SECOND_MAX);
            *self = Self { second, lines: 0 };
        }
        self.lines += 1;
        LineFate {
            is_written: self.lines <= LINES_PER_SECOND_MAX,
            is_first_dropped: self.lines == LINES_PER_SECOND_MAX + 1,
            dropped_before,
        }
    }
}

impl LineLimit {
    pub(super) fn new(clock: Arc<dyn Clock>, write: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self { clock, write: Box::new(write), places: Mutex::default() }
    }

    fn count(&self, place: &Metadata<'_>) -> LineFate {
        let second = self.clock.now().as_micros() / 1_000_000;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        match places.entry(place.callsite()) {
            Entry::Occupied(mut known) => known.get_mut().count(second),
            Entry::Vacant(new) => new.insert(LinesInSecond { second, lines: 0 }).count(second),
        }
    }
}

impl<S: Subscriber> Layer<S> for LineLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if *place.level() > Level::INFO {
            return true;
        }
        let LineFate { is_written, is_first_dropped, dropped_before } = self.count(place);
        let (level, target) = (*place.level(), place.target());
        if dropped_before > 0 {
            (self.write)(level, &format!("{dropped_before} lines of {target} were dropped"));
        }
        if is_first_dropped {
            let most = LINES_PER_SECOND_MAX;
            (self.write)(
                level,
                &format!("{target} has logged {most} such lines in a second; more are dropped"),
            );
        }
        is_written
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{self, Write};

    use tollway::Timestamp;
    use tollway_testkit::ManualClock;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// One place in the code, as a client of any crate can cause it.
    fn flood(lines: u64) {
        for number in 0..lines {
            tracing::warn!(target: "h2::proto::ping_pong", "line {number}");
        }
    }

    /// T23: lines of one place beyond the bound are dropped and counted; other places are not affected.
    #[test]
    fn a_flood_of_lines_is_dropped_and_counted() {
        let (written, clock) = (Written::default(), Arc::new(ManualClock::at(Timestamp::from_secs(1_000))));
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
        let note = written.clone();
        let limit = LineLimit::new(clock.clone(), move |level, line| {
            writeln!(note.0.lock().unwrap(), "{level} {line}").unwrap();
        });
        let subscriber = tracing_subscriber::registry().with(limit).with(lines.without_time());
        tracing::subscriber::with_default(subscriber, || {
            flood(1_000);
            tracing::warn!("another place");
            clock.set(Timestamp::from_secs(1_001));
            flood(2);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        assert_eq!(lines.len(), 105, "{text}");
        assert_eq!(lines[99], "WARN h2::proto::ping_pong: line 99");
        assert!(lines[100].contains("h2::proto::ping_pong has logged 100 such lines in a second"), "{text}");
        assert!(lines[101].ends_with("another place"));
        assert!(lines[102].ends_with("900 lines of h2::proto::ping_pong were dropped"), "{text}");
        assert_eq!(&lines[103..], ["WARN h2::proto::ping_pong: line 0", "WARN h2::proto::ping_pong: line 1"]);
    }
}
