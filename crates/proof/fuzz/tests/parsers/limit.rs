//! A limit as text.

use tollway_core::Limit;

use crate::{fuzz, is_harmless, text};

/// T20: a limit survives a round trip; an error points at a word of the text.
#[test]
fn limit() {
    fuzz("limit", |input| {
        let text = text(input);
        match text.parse::<Limit>() {
            Ok(limit) => {
                is_the_same_again(&limit);
                format!("{:?}", std::mem::discriminant(limit.algorithm()))
            }
            Err(error) => {
                let range = error.range();
                assert!(range.start <= range.end && range.end <= text.len(), "{range:?}");
                assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end), "{range:?}");
                assert_eq!(error.word(), &text[range]);
                is_harmless(&error.to_string());
                tollway_fuzz::kind_of(error.message())
            }
        }
    });
}

/// The text of a limit parses back to it.
pub(crate) fn is_the_same_again(limit: &Limit) {
    let written = limit.to_string();
    let again: Limit = written.parse().unwrap_or_else(|error| panic!("{written:?}: {error}"));
    assert_eq!(*limit, again, "{written:?}");
}
