//! Log lines on standard error, for every subcommand, with a bound on how many.

mod held_back;
mod json_lines;
mod line_limit;

use std::io::{self, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use tollway::{Clock, Timestamp};
use tollway_memory::WallClock;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use held_back::{hold_back, take_held};
use json_lines::{JsonLine, JsonLines};
use line_limit::LineLimit;

/// Takes on a table of minutes: dashboards of the system that owns it search for these lines, so they are logged at info.
const MINUTE_TAKES: &str = "tollway_dynamodb::minute";

/// Who changed what through the administration, and wrong tokens: logged at every level.
const CHANGES: [&str; 3] =
    ["tollway_server::admin", "tollway_server::consumers", tollway_dashboard::CHANGES_TARGET];

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    /// As text without times, for a short command.
    Short,
    /// As text, with the time in front.
    Text,
    /// As JSON objects.
    Json,
}

/// Whether lines are JSON: then what the command itself says on standard error is, too.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sends the library's warnings to standard error, for a short command. `holds_back`: errors of the store until its end.
pub(crate) fn report_warnings(quiet: bool, holds_back: bool) {
    if holds_back {
        held_back::begin();
    }
    let (level, takes) = match quiet {
        true => (LevelFilter::ERROR, LevelFilter::ERROR),
        false => (LevelFilter::WARN, LevelFilter::INFO),
    };
    begin(Targets::new().with_default(level).with_target(MINUTE_TAKES, takes), LineFormat::Short);
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

/// Adds [`CHANGES`] to what these targets let through.
fn with_changes(targets: Targets) -> Targets {
    CHANGES.iter().fold(targets, |targets, changes| match targets.would_enable(changes, &Level::INFO) {
        true => targets,
        false => targets.with_target(*changes, LevelFilter::INFO),
    })
}

/// Starts logging what these targets let through, and changes.
pub(crate) fn begin(targets: Targets, format: LineFormat) {
    let targets = with_changes(targets);
    IS_JSON.store(format == LineFormat::Json, Ordering::Relaxed);
    let limit = LineLimit::new(Arc::new(WallClock), move |level, line| write_line(format, level, line));
    let registry = tracing_subscriber::registry().with(targets).with(limit).with(held_back::HoldBack);
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Lines).with_target(false);
    match format {
        LineFormat::Short => registry.with(lines.without_time()).init(),
        LineFormat::Text => registry.with(lines).init(),
        LineFormat::Json => registry.with(JsonLines).init(),
    }
}

/// Whether lines are JSON objects.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes what the command says on standard error as a line of the log, if that is JSON. False: it is to be written as text.
pub(crate) fn say_as_json(level: Level, text: &str, advice: Option<&str>) -> bool {
    if is_json() {
        let text = anstream::adapter::strip_str(text).to_string();
        let line = JsonLine::new(level, text.trim());
        match advice {
            Some(advice) => line.with("advice", advice).write(),
            None => line.write(),
        }
    }
    is_json()
}

/// Writes a line in the format of the log.
fn write_line(format: LineFormat, level: Level, line: &str) {
    let time = match format {
        LineFormat::Json => return JsonLine::new(level, line).write(),
        LineFormat::Short => String::new(),
        LineFormat::Text => utc(WallClock.now()).map(|time| time + " ").unwrap_or_default(),
    };
    // Like the log itself, it has nowhere to report a closed standard error.
    let _ = writeln!(Lines, "{time}{level:>5} {line}");
}

/// A time as the log shows it.
fn utc(time: Timestamp) -> Option<String> {
    let time = jiff::Timestamp::from_microsecond(time.as_micros().cast_signed()).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_logged_at_every_level() {
        for level in [LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG] {
            let targets = with_changes(Targets::new().with_default(level).with_target("tollway", level));
            for changes in ["tollway_server::admin::answers", "tollway_dashboard::changes"] {
                assert!(targets.would_enable(changes, &Level::INFO), "{changes} at {level}");
                assert_eq!(targets.would_enable(changes, &Level::DEBUG), level == LevelFilter::DEBUG);
            }
            assert_eq!(
                targets.would_enable("tollway_server::worker", &Level::INFO),
                level >= LevelFilter::INFO
            );
        }
    }
}
