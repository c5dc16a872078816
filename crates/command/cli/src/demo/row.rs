//! A styled line of text of known width.

use anstyle::Style;

use crate::output::FAINT;

/// The width of all rows, so that a redrawn row covers the previous one.
pub(super) const WIDTH: usize = 79;

/// A styled line of text of known width.
#[derive(Default)]
pub(super) struct Row {
    text: String,
    width: usize,
}

impl Row {
    pub(super) fn new(text: &str) -> Self {
        Self::default().plain(text)
    }

    pub(super) fn plain(self, text: &str) -> Self {
        self.styled(Style::new(), text)
    }

    pub(super) fn styled(mut self, style: Style, text: &str) -> Self {
        self.width += text.chars().count();
        self.text.push_str(&format!("{style}{text}{style:#}"));
        self
    }

    /// A bar of this many characters, filled in proportion.
    pub(super) fn bar(self, style: Style, width: u64, part: u64, whole: u64) -> Self {
        let full = (part.min(whole) * width).checked_div(whole).unwrap_or(0);
        let times = |symbol: &str, n: u64| symbol.repeat(usize::try_from(n).unwrap_or(0));
        self.styled(style, &times("█", full)).styled(FAINT, &times("░", width - full))
    }

    /// The text without padding.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The text padded to the full width, to cover the previous row.
    pub(super) fn into_wide_text(self) -> String {
        let blanks = " ".repeat(WIDTH.saturating_sub(self.width));
        self.text + &blanks
    }
}
