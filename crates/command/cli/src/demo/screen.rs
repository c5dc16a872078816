//! Draws the demo on standard error: a live panel on a terminal, lines elsewhere.

use std::env;
use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size_of};

use super::panel;
use super::row::{Row, WIDTH};
use super::state::DemoState;
use crate::output::Output;

/// The most minutes printed at once, in case the machine's date changes during the run.
const MINUTES_AT_ONCE_MAX: usize = 60;

/// The display of a demo.
pub(super) struct Screen<'o> {
    output: &'o Output,
    /// The minute to print next.
    minute: u64,
    /// How many events are printed.
    events: usize,
    /// Panel rows on the terminal.
    drawn: usize,
}

impl<'o> Screen<'o> {
    /// Prints the introduction.
    pub(super) fn new(output: &'o Output, state: &DemoState) -> Self {
        panel::opening(state).into_iter().for_each(|row| output.note(row.into_text()));
        Self { output, minute: state.quota.minute_at(state.now), events: 0, drawn: 0 }
    }

    /// Prints news, and the panel if it fits.
    pub(super) fn show(&mut self, state: &DemoState) {
        let panel = panel::panel(state);
        let is_drawn = self.output.is_watched() && fits(panel.len());
        let news = self.news(state);
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

    /// Replaces the panel with the minute that is not over; the report has its other figures.
    pub(super) fn close(&mut self, state: &DemoState) {
        if self.drawn > 0 {
            self.rewind();
            erase_below();
        }
        self.output.note(panel::minute(state, state.quota.minute_at(state.now)).into_text());
    }

    /// Minutes and events since the last call.
    fn news(&mut self, state: &DemoState) -> Vec<Row> {
        let minute = state.quota.minute_at(state.now);
        // Workers that start at the very end of a minute call in the next one.
        let is_empty =
            |minute| minute < state.first_minute() && state.tollway.tally.minute(minute).calls == 0;
        let over = (self.minute..minute).take(MINUTES_AT_ONCE_MAX).filter(|minute| !is_empty(*minute));
        let mut news: Vec<Row> = over.map(|minute| panel::minute(state, minute)).collect();
        self.minute = minute;
        let events = state.events.iter().skip(self.events);
        news.extend(events.map(|event| panel::event(state, event)));
        self.events = state.events.len();
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
