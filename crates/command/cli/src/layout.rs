//! Fits text into a terminal.

pub(crate) use tollway::core::humanize::printable;
#[cfg(feature = "pipeline")]
pub(crate) use tollway::core::humanize::printable_name;

/// Lines end here: the width of a terminal as it opens.
pub(crate) const COLUMNS: usize = 80;
/// What indents lines and separates columns.
pub(crate) const INDENT: &str = "  ";

/// The lines of a longer text, each without invisible characters.
#[cfg(feature = "pipeline")]
pub(crate) fn printable_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(|line| printable_name(&line.replace('\t', "    ")).trim_end().to_owned())
}

/// At most so many characters; a text that is longer ends with `...`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{}...", start.trim_end())
}

/// Lines of at most so many characters, broken between words where possible.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
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

/// Lines of a sentence of at most so many characters, where words allow it. A word and a command in backticks stay whole, so
/// that they can be copied.
pub(crate) fn sentence(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut chunk, mut quoted) = (String::new(), false);
    let mut add = |chunk: &mut String| {
        let chunk = std::mem::take(chunk);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + chunk.chars().count() <= most => {
                line.push(' ');
                line.push_str(&chunk);
            }
            _ => lines.push(chunk),
        }
    };
    for sign in text.chars() {
        quoted ^= sign == '`';
        match sign {
            ' ' if !quoted => add(&mut chunk),
            _ => chunk.push(sign),
        }
    }
    add(&mut chunk);
    lines
}

/// Which columns of a table fit beside its labels: groups of indices, each of one column at least. `gap` is the space before
/// each column.
pub(crate) fn column_groups(label: usize, widths: &[usize], gap: usize) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    let mut used = 0;
    for (index, width) in widths.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if used + gap + width <= COLUMNS => group.end = index + 1,
            _ => {
                groups.push(index..index + 1);
                used = label;
            }
        }
        used += gap + width;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_vendor_fits() {
        assert_eq!((cut("abcdef", 6), cut("abcdefg", 6)), ("abcdef".to_owned(), "abc...".to_owned()));
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a longword b", 4), ["a", "long", "word", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn commands_in_a_sentence_stay_whole() {
        assert_eq!(sentence("run `a b c d` now", 8), ["run", "`a b c d`", "now"]);
        assert_eq!(sentence("one two three", 7), ["one two", "three"]);
        assert_eq!(sentence("a longword b", 4), ["a", "longword", "b"]);
    }

    #[test]
    fn columns_that_do_not_fit_begin_a_new_group() {
        assert_eq!(column_groups(10, &[30, 30, 30], 2), [0..2, 2..3]);
        assert_eq!(column_groups(10, &[90, 30], 2), [0..1, 1..2]);
    }
}
