//! Draws the demo on standard error: a live panel on a terminal, lines elsewhere.

use std::env;
use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size_of};

use super::panel::{self, Row, WIDTH};
use super::state::DemoState;
use crate::output::Output;

/// The most minutes printed at once, in case the machine's date changes during the run.
const MINUTES_AT_ONCE_MAX: usize = 60;

/// The display of a demo.
pub(super) struct Screen<'o> {
    output: &'o Output,
    /// The minute printed last.
    minute: u64,
    killed: bool,
    replaced: bool,
    /// Panel rows on the terminal.
    drawn: usize,
}

impl<'o> Screen<'o> {
    /// Prints the introduction.
    pub(super) fn new(output: &'o Output, state: &DemoState) -> Self {
        panel::opening(state).into_iter().for_each(|row| output.note(row.into_text()));
        let minute = state.plan.quota.minute_at(state.now);
        Self { output, minute, killed: false, replaced: false, drawn: 0 }
    }

    /// Prints new events, and the panel if it fits.
    pub(super) fn show(&mut self, state: &DemoState) {
        let panel = panel::panel(state);
        let is_drawn = self.output.is_watched() && fits(panel.len());
        let news = self.new_events(state);
        self.rewind();
        for row in news {
            self.output.note(if is_drawn { row.into_wide_text() } else { row.into_text() });
        }
        if is_drawn {
            self.drawn = panel.len();
            let rows: Vec<String> = panel.into_iter().map(Row::into_wide_text).collect();
            self.output.note(rows.join("\n"));
        }
    }

    /// Erases the panel; the report has its figures.
    pub(super) fn close(&mut self) {
        if self.drawn > 0 {
            self.rewind();
            erase_below();
        }
    }

    /// Events since the last call.
    fn new_events(&mut self, state: &DemoState) -> Vec<Row> {
        let mut news = Vec::new();
        let minute = state.plan.quota.minute_at(state.now);
        let over = (self.minute..minute).take(MINUTES_AT_ONCE_MAX);
        news.extend(over.map(|minute| panel::minute(state, minute)));
        self.minute = minute;
        if let Some(killed) = state.killed {
            if !self.killed {
                news.push(panel::killed(killed.worker));
                self.killed = true;
            }
            if let (Some(by), false) = (killed.replaced_by, self.replaced) {
                news.push(panel::replaced(killed.worker, by));
                self.replaced = true;
            }
        }
        news
    }

    /// Moves to the panel's first row. Bypasses `Output`, which would strip the escape sequence as a colour.
    fn rewind(&mut self) {
        if self.drawn > 0 {
            let _ = write!(io::stderr(), "\x1b[{}F", self.drawn);
            self.drawn = 0;
        }
    }
}

fn erase_below() {
    let _ = write!(io::stderr(), "\x1b[J");
}

/// Whether the terminal supports this and has room for that many rows.
fn fits(rows: usize) -> bool {
    let (width, height) = match terminal_size_of(io::stderr()) {
        Some((Width(width), Height(height))) => (usize::from(width), usize::from(height)),
        None => return false,
    };
    width > WIDTH && height > rows + 1 && env::var_os("TERM").is_some_and(|term| term != "dumb")
}
