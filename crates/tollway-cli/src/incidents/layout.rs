//! Fits what vendors and callers wrote into a terminal.

/// Lines end here.
pub(super) const COLUMNS: usize = 80;

/// The text on one line and without control characters: a vendor must not send escape sequences to the terminal.
pub(super) fn printable(text: &str) -> String {
    let replaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    replaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most so many characters; a text that is longer ends with `...`.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{}...", start.trim_end())
}

/// Lines of at most so many characters, broken between words where possible.
pub(super) fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let rest = word.split_off(word.len().min(most));
            let part: String = word.into_iter().collect();
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = part,
                Some(line) if line.chars().count() + 1 + part.chars().count() <= most => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
            word = rest;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_vendor_is_printable_and_fits() {
        assert_eq!(printable("a\u{1b}[31m\n\tb  c"), "a [31m b c");
        assert_eq!((cut("abcdef", 6), cut("abcdefg", 6)), ("abcdef".to_owned(), "abc...".to_owned()));
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a longword b", 4), ["a", "long", "word", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
