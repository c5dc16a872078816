//! Output of `tollway vendor`: its URL, a line that is redrawn each second, and a summary; with `--json`, events.

use std::io::{self, Write};

use serde_json::json;
use terminal_size::{Width, terminal_size_of};
use tollway::Clock;
use tollway_memory::WallClock;
use tollway_vendor::server::{VendorCounts, VendorDialect};

use super::Arguments;
use crate::failure::Failure;
use crate::humanize::{count, span};
use crate::output::{FAINT, Output, STRONG};
use crate::stopwatch::Stopwatch;

/// Where standard error is no terminal, a line is printed after so many seconds with calls.
const LINE_EVERY: u64 = 10;

/// Shows what happens at a vendor.
pub(super) struct Display<'o> {
    output: &'o Output,
    stopwatch: Stopwatch,
    last: VendorCounts,
    /// The most accepted calls between two ticks, a second apart.
    busiest: u64,
    /// What the last printed line covers, and the ticks since.
    printed: VendorCounts,
    ticks: u64,
    /// Whether a line is on the terminal that the next one replaces.
    drawn: bool,
}

impl<'o> Display<'o> {
    /// Prints the URL and a command to try.
    pub(super) fn start(output: &'o Output, url: &str, arguments: &Arguments) -> Result<Self, Failure> {
        let (limits, dialect) = (&arguments.limits, &arguments.dialect);
        if output.is_json() {
            output.json(&json!({"event": "listening", "url": url, "dialect": dialect, "limits": limits}))?;
        } else if output.is_quiet() {
            output.line(url)?;
        } else {
            output.line(format_args!("{:8} {STRONG}{url}{STRONG:#}", "vendor"))?;
            for limit in limits {
                output.line(format_args!("{:8} {limit}", "limit"))?;
            }
            for change in &arguments.changes {
                output.line(format_args!("{:8} {} after {}", "", change.limit, change.after))?;
            }
            output.line(format_args!("{:8} {dialect}", "dialect"))?;
            output.line(format_args!("{:8} curl -i {url}/v1/users", "try"))?;
        }
        output.flush()?;
        let (last, printed) = (VendorCounts::default(), VendorCounts::default());
        Ok(Self { output, stopwatch: Stopwatch::start(), last, busiest: 0, printed, ticks: 0, drawn: false })
    }

    /// A second has passed.
    pub(super) fn tick(&mut self, counts: VendorCounts) -> Result<(), Failure> {
        let second = difference(counts, self.last);
        self.last = counts;
        self.busiest = self.busiest.max(second.accepted);
        if self.output.is_json() {
            return self.event(second);
        }
        if self.output.is_watched() {
            self.draw(second, counts);
            return Ok(());
        }
        self.ticks += 1;
        let since = difference(counts, self.printed);
        if self.ticks >= LINE_EVERY && since != VendorCounts::default() {
            self.output.note(format_args!("{}, in {} s", text(since), self.ticks));
            (self.printed, self.ticks) = (counts, 0);
        }
        Ok(())
    }

    /// A second without calls is no event.
    fn event(&self, second: VendorCounts) -> Result<(), Failure> {
        if second == VendorCounts::default() {
            return Ok(());
        }
        let mut event = json!(second);
        event["event"] = json!("second");
        event["time"] = json!(WallClock.now().to_string());
        self.output.json(&event)?;
        self.output.flush()
    }

    /// Replaces the line on the terminal. Bypasses `Output`, which would strip the escape sequence as a colour.
    fn draw(&mut self, second: VendorCounts, all: VendorCounts) {
        self.erase();
        let line = format!("{} a second; {} in all", text(second), text(all));
        // A line that wraps could not be erased.
        let width = terminal_size_of(io::stderr()).map_or(80, |(Width(width), _)| usize::from(width));
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        let _ = write!(io::stderr(), "{line}");
        let _ = io::stderr().flush();
        self.drawn = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    /// The vendor has stopped.
    pub(super) fn summary(&mut self, counts: VendorCounts) -> Result<(), Failure> {
        self.erase();
        let ran = self.stopwatch.elapsed();
        let busiest = self.busiest.max(difference(counts, self.last).accepted);
        if self.output.is_json() {
            let mut event = json!(counts);
            event["event"] = json!("summary");
            event["seconds"] = json!(ran.as_micros() as f64 / 1e6);
            event["busiest_second"] = json!(busiest);
            return self.output.json(&event);
        }
        let asked = counts.accepted + counts.refused + counts.failed;
        let refused = counts.refused.saturating_mul(1_000).checked_div(asked).unwrap_or(0);
        let tokens =
            if counts.tokens > 0 { format!(", {} tokens", count(counts.tokens)) } else { String::new() };
        self.output.line(format_args!(
            "{STRONG}{}{STRONG:#}{tokens} in {}{FAINT}; {refused} of 1,000 calls refused, at most {} accepted in a second{FAINT:#}",
            text(counts),
            span(ran),
            count(busiest)
        ))
    }
}

/// `12 accepted, 3 refused`, and failures if there are any.
fn text(counts: VendorCounts) -> String {
    let failed = if counts.failed > 0 { format!(", {} failed", count(counts.failed)) } else { String::new() };
    format!("{} accepted, {} refused{failed}", count(counts.accepted), count(counts.refused))
}

fn difference(now: VendorCounts, before: VendorCounts) -> VendorCounts {
    VendorCounts {
        accepted: now.accepted - before.accepted,
        refused: now.refused - before.refused,
        failed: now.failed - before.failed,
        tokens: now.tokens.saturating_sub(before.tokens),
    }
}

/// The list of `--list-dialects`.
pub(super) fn list_dialects(output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let dialects = VendorDialect::all();
        let dialects = dialects.map(|dialect| json!({"name": dialect.name(), "sends": dialect.about()}));
        return output.json(&json!({"dialects": dialects.collect::<Vec<_>>()}));
    }
    for dialect in VendorDialect::all() {
        output.line(format_args!("{STRONG}{:15}{STRONG:#}  {}", dialect.name(), dialect.about()))?;
    }
    Ok(())
}
