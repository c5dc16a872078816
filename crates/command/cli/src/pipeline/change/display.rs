//! How far a change is: a bar at a terminal, otherwise a line a minute.

use indicatif::{ProgressBar, ProgressStyle};
use tollway::Span;

use crate::context::Context;
use crate::humanize::count;
use crate::stopwatch::Stopwatch;

/// How often a slow change prints a line where there is no terminal.
const LINE_EVERY: Span = Span::from_mins(1);

/// Shows how far it is, and is removed from the terminal when it is dropped.
pub(in crate::pipeline) struct Display<'a> {
    context: &'a Context,
    bar: ProgressBar,
    most: u64,
    slow: bool,
    printed: Stopwatch,
}

impl<'a> Display<'a> {
    /// For so many jobs. A slow change also prints lines.
    pub(in crate::pipeline) fn new(context: &'a Context, most: u64, slow: bool) -> Self {
        let bar = if context.output().is_watched() { ProgressBar::new(most) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { context, bar, most, slow, printed: Stopwatch::start() }
    }

    /// The number of jobs turned out to be another.
    #[cfg(feature = "aws")]
    pub(in crate::pipeline) fn set_most(&mut self, most: u64) {
        self.most = most;
        self.bar.set_length(most);
    }

    pub(in crate::pipeline) fn show(&mut self, changed: u64) {
        self.bar.set_position(changed);
        if self.slow && self.bar.is_hidden() && self.printed.elapsed() >= LINE_EVERY {
            self.printed = Stopwatch::start();
            self.context.output().note(format_args!("{} of {}", count(changed), count(self.most)));
        }
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
