//! "Did you mean" for keys and words.

use tollway_core::bounds::NAMES_COMPARED_MAX;
use tollway_core::nearest;

/// How many known words are listed: errors keep about as many.
const WORDS_LISTED_MAX: usize = 50;

/// Advice for an unknown word: the closest known one, else all of them, or the first of very many.
pub fn advice(word: &str, known: &[&str]) -> String {
    match (meant(word, known), known.get(..WORDS_LISTED_MAX)) {
        (Some(meant), _) => format!("did you mean {meant:?}?"),
        (None, Some(first)) if known.len() > WORDS_LISTED_MAX => {
            let more = known.len().saturating_sub(WORDS_LISTED_MAX);
            format!("expected one of {} and {more} more", first.join(", "))
        }
        (None, _) => format!("expected one of {}", known.join(", ")),
    }
}

/// The nearest word, or one with a common prefix or containment: `policy` for `policies`, `wait` for `max_wait`. None of very
/// many words, which would be compared for each mistake.
pub fn meant<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const ALIKE_CHARS: usize = 4;
    if known.len() > NAMES_COMPARED_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let beginning: String = word.chars().take(ALIKE_CHARS).collect();
    let alike = |known: &&&str| {
        beginning.chars().count() == ALIKE_CHARS
            && (known.starts_with(&beginning) || known.contains(word.as_str()) || word.contains(**known))
    };
    nearest(&word, known.iter().copied()).or_else(|| known.iter().find(alike).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested() {
        let known = ["limits", "max_wait", "policies", "when_store_fails"];
        assert_eq!(meant("limts", &known), Some("limits"));
        assert_eq!(meant("policy", &known), Some("policies"));
        assert_eq!(meant("wait", &known), Some("max_wait"));
        assert_eq!(meant("Max_Wait", &known), Some("max_wait"));
        assert_eq!(meant("colour", &known), None);
        assert_eq!(advice("zebra", &["on", "off"]), "expected one of on, off");
    }
}
