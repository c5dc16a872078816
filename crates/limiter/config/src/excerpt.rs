//! Shows a place in a text: its line and a mark under the word.

use std::fmt;
use std::ops::Range;

use crate::secrets::without_secrets;

/// How many characters of a long line are shown before and after the word.
const CHARS_AROUND: usize = 100;

/// It is not counted as a column.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// One printable line of the source, and the position of the word in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    line: usize,
    column: usize,
    /// The line, or the part of it around the word.
    shown: String,
    /// White space as wide as the text before the word.
    indent: String,
    /// How many characters are marked.
    width: usize,
}

impl Excerpt {
    /// The place of `word` (a byte range) in `text`. A word over several lines is marked to the end of its first.
    pub(crate) fn of(text: &str, word: &Range<usize>) -> Self {
        let start = boundary(text, word.start);
        let (before, after) = text.split_at_checked(start).unwrap_or((text, ""));
        let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
        let line_end = after.find('\n').map_or(text.len(), |newline| start.saturating_add(newline));
        let line = text.get(line_start..line_end).unwrap_or_default();
        let line = without_secrets(&without_password(line.strip_suffix('\r').unwrap_or(line)));

        let marked = text.get(start..boundary(text, word.end).min(line_end)).unwrap_or_default();
        let lead = before.get(line_start..).unwrap_or_default();
        let hidden = usize::from(lead.starts_with(BYTE_ORDER_MARK));
        let (line_number, column) = line_and_column(text, start);
        let offset = lead.chars().count();
        let skipped = offset.saturating_sub(CHARS_AROUND).max(hidden);
        let width = marked.trim_end().chars().count().clamp(1, CHARS_AROUND);
        let kept = offset.saturating_add(width).saturating_add(CHARS_AROUND).saturating_sub(skipped);
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        Self {
            line: line_number,
            column,
            shown: line.chars().skip(skipped).take(kept).map(printable).collect(),
            indent: lead.chars().skip(skipped).map(blank).collect(),
            width,
        }
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// In characters, counted from 1.
    pub(crate) fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        writeln!(f, "  {number} | {}", self.shown)?;
        write!(f, "  {gutter} | {}{}", self.indent, "^".repeat(self.width))
    }
}

/// The line and the column in characters of a place, counted from 1.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..boundary(text, at)).unwrap_or(text);
    let (lines, lead) = match before.rsplit_once('\n') {
        Some((lines, lead)) => (lines.matches('\n').count().saturating_add(2), lead),
        None => (1, before),
    };
    let lead = lead.strip_prefix(BYTE_ORDER_MARK).unwrap_or(lead);
    (lines, lead.chars().count().saturating_add(1))
}

/// The nearest character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Replaces invisible characters: an arbitrary file must not send escape sequences to the terminal.
fn printable(character: char) -> char {
    if tollway_core::is_invisible(character) && character != '\t' { '\u{fffd}' } else { character }
}

/// The line with the password of a URL (`redis://user:secret@host`) starred out: errors end up in logs.
fn without_password(line: &str) -> String {
    let secret = || {
        let host = line.find("://")?.saturating_add(3);
        let url = line.get(host..)?;
        let url = url.get(..url.find(['"', '\'', ' ']).unwrap_or(url.len()))?;
        let at = url.rfind('@')?;
        let colon = url.get(..at)?.find(':')?;
        Some(host.saturating_add(colon).saturating_add(1)..host.saturating_add(at))
    };
    let Some(secret) = secret() else { return line.to_owned() };
    let stars = "*".repeat(line.get(secret.clone()).unwrap_or_default().chars().count());
    let part = |range: Range<usize>| line.get(range).unwrap_or_default();
    format!("{}{stars}{}", part(0..secret.start), part(secret.end..line.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt_of(text: &str, word: &str) -> String {
        let start = text.find(word).unwrap();
        Excerpt::of(text, &(start..start + word.len())).to_string()
    }

    #[test]
    fn the_mark_is_under_the_word() {
        assert_eq!(excerpt_of("one\ntwo three\n", "three"), "  2 | two three\n    |     ^^^^^");
        assert_eq!(excerpt_of("é = \"ü minit\"", "minit"), "  1 | é = \"ü minit\"\n    |        ^^^^^");
        assert_eq!(excerpt_of("\ta = x\r\n", "x"), "  1 | \ta = x\n    | \t    ^");
        assert_eq!(excerpt_of("\u{feff}ab = 1", "ab"), "  1 | ab = 1\n    | ^^");
    }

    #[test]
    fn positions_outside_the_text_are_shown_at_its_end() {
        assert_eq!(Excerpt::of("ab", &(9..12)).to_string(), "  1 | ab\n    |   ^");
        assert_eq!(Excerpt::of("", &(0..0)).to_string(), "  1 | \n    | ^");
        assert_eq!(Excerpt::of("é", &(1..2)).column(), 1);
    }

    #[test]
    fn a_long_line_is_cut_around_the_word() {
        let text = format!("{}wrong{}", "x".repeat(1_000), "y".repeat(1_000));
        let excerpt = Excerpt::of(&text, &(1_000..1_005));
        assert_eq!(excerpt.column(), 1_001);
        assert_eq!(excerpt.shown.len(), 205);
        assert_eq!(excerpt.indent.len(), 100);
    }

    #[test]
    fn passwords_and_control_characters_are_not_shown() {
        let text = "url = \"redis://me:p:@ss@host\"";
        assert!(excerpt_of(text, "redis").starts_with("  1 | url = \"redis://me:*****@host\"\n"));
        assert!(!excerpt_of("a = \u{1b}[31m", "a").contains('\u{1b}'));
    }
}
