//! Texts that fit a width, and figures in few characters.

use tollway_core::Span;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Exactly so wide: filled up with spaces, or cut off with an ellipsis.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut fitted = cut(text, width);
    let used = fitted.width();
    fitted.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    fitted
}

/// The same, at the right edge.
pub(super) fn fit_right(text: &str, width: usize) -> String {
    let cut = cut(text, width);
    format!("{}{cut}", " ".repeat(width.saturating_sub(cut.width())))
}

fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut used, mut cut) = (0, String::new());
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used >= width {
            break;
        }
        cut.push(letter);
    }
    if width > 0 { cut + "\u{2026}" } else { cut }
}

/// At most so many lines, broken between words; the last one is cut off if there is more.
pub(super) fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = |line: &str| line.is_empty() || line.width() + 1 + word.width() <= width;
        let is_last = lines.len() == most;
        match lines.last_mut() {
            Some(line) if fits(line) || is_last => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

/// `14:32:07`, of milliseconds since 1970.
pub(super) fn time_of_day(millis: u64) -> String {
    let seconds = millis / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// `12s`, `3m`, `2h`, `4d`, rounded up.
pub(super) fn span(span: Span) -> String {
    match span.as_micros().div_ceil(1_000_000) {
        seconds @ 0..100 => format!("{seconds}s"),
        seconds @ 100..6_000 => format!("{}m", seconds.div_ceil(60)),
        seconds @ 6_000..172_800 => format!("{}h", seconds.div_ceil(3_600)),
        seconds => format!("{}d", seconds.div_ceil(86_400)),
    }
}

/// `9999`, `25k`, `1.2M`: at most five characters below a thousand million.
pub(super) fn short(number: u64) -> String {
    let tenths = |unit: u64| (number / (unit / 10)) % 10;
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 if number < 100_000 && tenths(1_000) > 0 => {
            format!("{}.{}k", number / 1_000, tenths(1_000))
        }
        10_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..1_000_000_000 if number < 100_000_000 && tenths(1_000_000) > 0 => {
            format!("{}.{}M", number / 1_000_000, tenths(1_000_000))
        }
        1_000_000..1_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", number / 1_000_000_000),
    }
}

/// `0`, `0.2`, `12.5`, `1200`.
pub(super) fn rate(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else if rate < 100.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_width() {
        assert_eq!((fit("abc", 5).as_str(), fit("abcdef", 4).as_str()), ("abc  ", "abc\u{2026}"));
        assert_eq!((fit_right("7", 3).as_str(), fit("abc", 0).as_str()), ("  7", ""));
        // Two columns each: the second would not fit beside the ellipsis.
        assert_eq!(fit("\u{6f22}\u{5b57}", 3), "\u{6f22}\u{2026}");
    }

    #[test]
    fn sentences_are_wrapped_and_cut_off() {
        assert_eq!(wrap("one two three", 7, 2), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo\u{2026}"]);
        assert_eq!(wrap("", 9, 2), [""]);
    }

    #[test]
    fn figures_are_short() {
        let said = [7, 9_999, 12_500, 250_000, 1_000_000, 2_340_000, 5_000_000_000].map(short);
        assert_eq!(said, ["7", "9999", "12.5k", "250k", "1M", "2.3M", "5G"]);
        assert_eq!([0.0, 0.24, 12.46, 1_234.5].map(rate), ["0", "0.2", "12.5", "1234"]);
        let spans =
            [400, 12_000, 130_000, 7_000_000, 400_000_000].map(|millis| span(Span::from_millis(millis)));
        assert_eq!(spans, ["1s", "12s", "3m", "2h", "5d"]);
        assert_eq!(time_of_day(1_790_000_000_000), "14:13:20");
    }
}
