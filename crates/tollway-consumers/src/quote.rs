//! Quotes a wrong value in an error message, shortened.

/// How many characters of a wrong value a message repeats.
const QUOTED_CHARS_MAX: usize = 40;

/// The text in quotes, with invisible characters escaped; cut off if it is long.
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
    fn long_and_hostile_texts_stay_short_and_harmless() {
        assert_eq!(quote("a\nb"), r#""a\nb""#);
        assert_eq!(quote(&"ü".repeat(41)), format!("\"{}\"...", "ü".repeat(40)));
    }
}
