//! What somebody sent, in a message: quoted, and no longer than a message can bear.

/// How many characters of a wrong value a message repeats.
const SHOWN_CHARS_MAX: usize = 40;

/// The text in quotes, with what is invisible escaped; cut off if it is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_hostile_texts_stay_short_and_harmless() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert_eq!(shown(&"ü".repeat(41)), format!("\"{}\"...", "ü".repeat(40)));
    }
}
