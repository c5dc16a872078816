//! A bar on standard error while somebody watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::log::Log;
use crate::output::Output;
use crate::words;

/// How often a second it is drawn.
const DRAWN_PER_SECOND: u8 = 8;

const OF_FILE: &str = "{wide_bar} {bytes} of {total_bytes}  {msg}  {eta} left";
const OF_STREAM: &str = "{spinner} {bytes}  {msg}";

pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Nothing is drawn where nobody watches.
    pub(super) fn of(log: &Log, output: &Output) -> Self {
        if !output.is_watched() {
            return Self(ProgressBar::hidden());
        }
        let bar =
            ProgressBar::with_draw_target(log.size(), ProgressDrawTarget::stderr_with_hz(DRAWN_PER_SECOND));
        let style = if log.size().is_some() { OF_FILE } else { OF_STREAM };
        // A template that is wrong would be our mistake, and no reason to end.
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    pub(super) fn show(&self, bytes: u64, calls: u64) {
        if self.0.is_hidden() {
            return;
        }
        let per_second = u128::from(calls) * 1_000 / self.0.elapsed().as_millis().max(1);
        self.0
            .set_message(format!("{} lines/s", words::count(u64::try_from(per_second).unwrap_or(u64::MAX))));
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
