//! Characters that change how a text looks without being seen.

/// Whether a character is a control, ends a line, or is seen only in what it does to others: it turns their direction
/// around, as U+202E does, or takes no width, as U+200B does. Two texts without them that look the same are the same, as far
/// as alphabets differ in their letters. A space is visible.
///
/// Variation selectors are not among them: names in Japanese and emoji need them.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Soft hyphen, joiners, marks and embeddings of direction, line and paragraph separators.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Letters of no width: fillers of Hangul, inherent vowels of Khmer.
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}'
            // Marks of notes, of shorthand and of music, and tags.
            | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_allowed() {
        assert!("a B-é größe 名前 ❤️ \u{202f}|".chars().all(|c| !is_invisible(c)));
        let controls = "\0\n\t\u{1b}\u{85}";
        let formats = "\u{ad}\u{200b}\u{200d}\u{2028}\u{2029}\u{202e}\u{2066}\u{3164}\u{feff}\u{e0041}";
        for hidden in controls.chars().chain(formats.chars()) {
            assert!(is_invisible(hidden), "{hidden:?}");
        }
    }
}
