//! Words of the commands that fixes print, quoted for a shell.

/// Text quoted for a shell, unless it has invisible characters.
pub(crate) fn shell_word(text: &str) -> Option<String> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.:/".contains(sign);
    let visible = |sign: char| sign.escape_debug().len() == 1 || "'\"\\".contains(sign);
    if !text.chars().all(visible) {
        return None;
    }
    let bare = !text.is_empty() && text.chars().all(plain);
    Some(if bare { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) })
}

/// The same, with dots in place of text that cannot be shown.
pub(crate) fn shell_word_or_dots(text: &str) -> String {
    shell_word(text).unwrap_or_else(|| "...".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_or_left_out() {
        assert_eq!(shell_word("a_PER_DAY").as_deref(), Some("a_PER_DAY"));
        assert_eq!(shell_word("a'b \"c\\_PER_DAY").as_deref(), Some("'a'\\''b \"c\\_PER_DAY'"));
        assert_eq!(shell_word("").as_deref(), Some("''"));
        for hostile in ["\u{1b}[2J_PER_DAY", "a\nrm -rf /_PER_DAY", "\u{202e}a_PER_DAY"] {
            assert_eq!(shell_word(hostile), None);
        }
    }
}
