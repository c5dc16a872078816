//! Quotes a wrong value in an error message, shortened.

/// The most characters of an invalid value that a message quotes.
const QUOTED_CHARS_MAX: usize = 40;

/// The text in quotes, with invisible characters escaped, truncated if it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_truncated_and_escaped() {
        assert_eq!(quote("a\nb"), r#""a\nb""#);
        assert_eq!(quote(&"ü".repeat(41)), format!("\"{}\"...", "ü".repeat(40)));
    }
}
