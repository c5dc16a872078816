//! Log lines on standard error, for every subcommand, with a bound on how many.

mod held_back;
mod line_limit;

use std::io::{self, Write, stderr};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use tollway::Clock;
use tollway_memory::WallClock;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use held_back::{hold_back, take_held};
use line_limit::LineLimit;

/// Takes on a table of minutes: dashboards of the system that owns it search for these lines, so they are logged at info.
const MINUTE_TAKES: &str = "tollway_dynamodb::minute";

/// Whether lines have a time in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Shown,
    Hidden,
}

/// Sends the library's warnings to standard error, for a short command. `holds_back`: errors of the store until its end.
pub(crate) fn report_warnings(quiet: bool, holds_back: bool) {
    if holds_back {
        held_back::begin();
    }
    let (level, takes) = match quiet {
        true => (LevelFilter::ERROR, LevelFilter::ERROR),
        false => (LevelFilter::WARN, LevelFilter::INFO),
    };
    begin(Targets::new().with_default(level).with_target(MINUTE_TAKES, takes), Times::Hidden);
}

/// A live display that lines are written above, so that they do not spoil it.
static ABOVE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes lines above this display from now on; none: plainly again.
pub(crate) fn go_through(display: Option<ProgressBar>) {
    *ABOVE.lock().unwrap_or_else(PoisonError::into_inner) = display;
}

/// Standard error, above the live display if there is one.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let display = ABOVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let write = || stderr().lock().write_all(bytes);
        match display {
            Some(display) => display.suspend(write)?,
            None => write()?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts logging what these targets let through.
pub(crate) fn begin(targets: Targets, times: Times) {
    let limit = LineLimit::new(Arc::new(WallClock), move |level, line| write_line(times, level, line));
    let registry = tracing_subscriber::registry().with(targets).with(limit).with(held_back::HoldBack);
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Lines).with_target(false);
    match times {
        Times::Shown => registry.with(lines).init(),
        Times::Hidden => registry.with(lines.without_time()).init(),
    }
}

/// Writes a line in the format of the log.
fn write_line(times: Times, level: Level, line: &str) {
    let micros = WallClock.now().as_micros().cast_signed();
    let time = jiff::Timestamp::from_microsecond(micros).ok().filter(|_| times == Times::Shown);
    let time = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ ").to_string()).unwrap_or_default();
    // Like the log itself, it has nowhere to report a closed standard error.
    let _ = writeln!(Lines, "{time}{level:>5} {line}");
}
