//! Subjects built from the values of a descriptor's entries: `{user}@{tenant}`.
//!
//! Descriptors of one rule with different values have different subjects: the character that separates two values is
//! escaped inside them.

use tollway_config::suggest;

/// A subject with placeholders for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectTemplate {
    pieces: Vec<SubjectPiece>,
    escaped: String,
}

/// A part of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectPiece {
    /// Literal text.
    Text(String),
    /// The value of the entry at this index.
    Value(usize),
}

impl SubjectTemplate {
    /// The subject of rules that set none: every entry with its key, so that each descriptor has its own usage.
    pub fn of_entries<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        let pieces = keys.into_iter().enumerate().flat_map(|(index, key)| {
            let separator = if index == 0 { "" } else { "|" };
            [SubjectPiece::Text(format!("{separator}{key}=")), SubjectPiece::Value(index)]
        });
        // Even a single value is escaped: another rule of the same policy may have more.
        Self { pieces: pieces.collect(), escaped: "|".to_owned() }
    }

    /// Parses a template. An error is a message with advice.
    pub(super) fn read(text: &str, keys: &[&str]) -> Result<Self, (String, String)> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let unclosed =
                || ("a `{` is never closed".to_owned(), "write it like \"{remote_address}\"".to_owned());
            let (key, behind) = after.split_once('}').ok_or_else(unclosed)?;
            if !before.is_empty() {
                pieces.push(SubjectPiece::Text(before.to_owned()));
            }
            pieces.push(SubjectPiece::Value(place_of(key, keys)?));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(SubjectPiece::Text(rest.to_owned()));
        }
        check_borders(&pieces)?;
        let escaped = separators(&pieces).filter_map(|text| text.chars().next()).collect();
        Ok(Self { pieces, escaped })
    }

    /// Its parts, in order.
    pub fn pieces(&self) -> &[SubjectPiece] {
        &self.pieces
    }

    /// The ASCII characters that are percent-encoded in values, along with `%`. Empty: values are not encoded.
    pub fn escaped(&self) -> &str {
        &self.escaped
    }
}

fn place_of(key: &str, keys: &[&str]) -> Result<usize, (String, String)> {
    let mut places = keys.iter().enumerate().filter(|(_, known)| **known == key).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => {
            let message = format!("{key:?} occurs twice in `keys`, so `{{{key}}}` is ambiguous");
            Err((
                message,
                "give one of them another `descriptor_key` in Envoy, or leave `subject` out".to_owned(),
            ))
        }
        (None, _) => Err((format!("{key:?} is not one of `keys`"), suggest::advice(key, keys))),
    }
}

/// The texts between two values.
fn separators(pieces: &[SubjectPiece]) -> impl Iterator<Item = &str> {
    pieces.windows(3).filter_map(|three| match three {
        [SubjectPiece::Value(_), SubjectPiece::Text(text), SubjectPiece::Value(_)] => Some(text.as_str()),
        _ => None,
    })
}

/// Every two values need a separator, so that it is clear where one ends.
fn check_borders(pieces: &[SubjectPiece]) -> Result<(), (String, String)> {
    let touching =
        pieces.windows(2).any(|two| matches!(two, [SubjectPiece::Value(_), SubjectPiece::Value(_)]));
    let parts = |text: &str| text.starts_with(|first: char| first.is_ascii_punctuation() && first != '%');
    if touching || !separators(pieces).all(parts) {
        let message =
            "two values of a subject must be separated by text that begins with punctuation other than `%`";
        return Err((message.to_owned(), "write it like \"{user}@{tenant}\"".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_escaped_inside_values() {
        let template = SubjectTemplate::read("a/{user}@{tenant}:x", &["tenant", "user"]).unwrap();
        let text = |text: &str| SubjectPiece::Text(text.to_owned());
        assert_eq!(
            template.pieces(),
            [text("a/"), SubjectPiece::Value(1), text("@"), SubjectPiece::Value(0), text(":x")]
        );
        assert_eq!(template.escaped(), "@");
        assert_eq!(SubjectTemplate::read("{user}", &["user"]).unwrap().escaped(), "");
        assert_eq!(SubjectTemplate::of_entries(["a"]).escaped(), "|");
    }

    #[test]
    fn ambiguous_subject_templates_are_rejected() {
        for (text, keys) in [
            ("{a}{b}", &["a", "b"][..]),
            ("{a}x{b}", &["a", "b"]),
            ("{a}%{b}", &["a", "b"]),
            ("{a}", &["a", "a"]),
            ("{c}", &["a", "b"]),
            ("{a", &["a"]),
        ] {
            assert!(SubjectTemplate::read(text, keys).is_err(), "{text}");
        }
    }
}
