//! Where a demo is shown: on a terminal with a panel that moves, elsewhere line by line. All of it on standard error.

use std::env;
use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size_of};

use super::course::Course;
use super::panel::{self, Row, WIDTH};
use crate::output::Output;

/// Minutes that are shown at once, should the machine's date be set while it runs.
const NEWS_MAX: usize = 60;

/// Where a demo is shown.
pub(super) struct Screen<'o> {
    output: &'o Output,
    /// The minute that was shown last.
    minute: u64,
    killed: bool,
    replaced: bool,
    /// Rows of the panel that are on the terminal.
    drawn: usize,
}

impl<'o> Screen<'o> {
    /// Opens with a few words.
    pub(super) fn new(output: &'o Output, course: &Course) -> Self {
        panel::opening(course).into_iter().for_each(|row| output.note(row.into_text()));
        let minute = course.plan.quota.minute_at(course.now);
        Self { output, minute, killed: false, replaced: false, drawn: 0 }
    }

    /// Shows what is new, and the panel where there is room for it.
    pub(super) fn show(&mut self, course: &Course) {
        let panel = panel::panel(course);
        let is_drawn = self.output.is_watched() && fits(panel.len());
        let news = self.news(course);
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

    /// Takes the panel away; what it showed is in the report.
    pub(super) fn close(&mut self) {
        if self.drawn > 0 {
            self.rewind();
            erase_below();
        }
    }

    /// What has happened since the last time.
    fn news(&mut self, course: &Course) -> Vec<Row> {
        let mut news = Vec::new();
        let minute = course.plan.quota.minute_at(course.now);
        let over = (self.minute..minute).take(NEWS_MAX);
        news.extend(over.map(|minute| panel::minute(course, minute)));
        self.minute = minute;
        if let Some(killed) = course.killed {
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

    /// Back to the panel's first row, to draw over it. Not by the output: it would take this for a colour.
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

/// Whether the terminal understands and has room for so many rows.
fn fits(rows: usize) -> bool {
    let (width, height) = match terminal_size_of(io::stderr()) {
        Some((Width(width), Height(height))) => (usize::from(width), usize::from(height)),
        None => return false,
    };
    width > WIDTH && height > rows + 1 && env::var_os("TERM").is_some_and(|term| term != "dumb")
}
