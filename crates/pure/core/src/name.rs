//! Names, subjects and ids: text that is validated when it is created.

use std::borrow::Borrow;
use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::bounds::{CALL_ID_BYTES_MAX, NAME_BYTES_MAX, SUBJECT_BYTES_MAX};

/// Why a text cannot be a name, a subject or an id.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("{what} is empty")]
    Empty {
        /// The kind of text: "the name", "the subject" or "the id".
        what: &'static str,
    },
    /// The text is over its bound.
    #[error("{what} has {bytes} bytes, more than the {max} allowed")]
    TooLong {
        /// The kind of text: "the name", "the subject" or "the id".
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A character that is not allowed.
    #[error("{what} contains {character:?}, which is not allowed")]
    BadCharacter {
        /// The kind of text: "the name", "the subject" or "the id".
        what: &'static str,
        /// The offending character.
        character: char,
    },
}

crate::debug_as_display!(NameError);

/// The name of a policy, a limit or a unit: letters, digits, `_`, `-` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "CompactString", into = "CompactString")]
pub struct Name(CompactString);

impl Name {
    /// Validates the text.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let what = "the name";
        check_length(what, text, NAME_BYTES_MAX)?;
        if text.is_empty() {
            return Err(NameError::Empty { what });
        }
        let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        match text.chars().find(|c| !allowed(*c)) {
            Some(character) => Err(NameError::BadCharacter { what, character }),
            None => Ok(Self(text.into())),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// So that maps by name are searched with a text. Both have the same order and hash.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// The caller a policy counts for, such as a tenant or an API key. The empty subject is shared by all callers.
///
/// Subjects up to 24 bytes are stored inline, so that a take does not allocate for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "CompactString", into = "CompactString")]
pub struct Subject(CompactString);

impl Subject {
    /// The policy's shared subject.
    pub const SHARED: Self = Self(CompactString::const_new(""));

    /// Validates the text: at most 1 KiB, no NUL.
    #[inline]
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_text("the subject", text, SUBJECT_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A caller's id for a take, so that a retried call counts once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "CompactString", into = "CompactString")]
pub struct CallId(CompactString);

impl CallId {
    /// Validates the text: 1 to 128 bytes, no NUL.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let what = "the id";
        if text.is_empty() {
            return Err(NameError::Empty { what });
        }
        check_text(what, text, CALL_ID_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The id of the second take of a permit that begins too late: the same for every repeated `begin`.
    pub fn of_second_take(permit: PermitId) -> Self {
        Self(compact_str::format_compact!("begin:{permit}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Identifies one permit among all processes that share a store. The caller draws it at random; the engine only compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(pub u128);

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for PermitId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PermitId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = CompactString::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

#[inline]
fn check_text(what: &'static str, text: &str, max: usize) -> Result<(), NameError> {
    check_length(what, text, max)?;
    if has_nul(text.as_bytes()) {
        return Err(NameError::BadCharacter { what, character: '\0' });
    }
    Ok(())
}

/// Checks eight bytes at a time: subjects are validated with every take.
#[inline]
fn has_nul(bytes: &[u8]) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let word_has_nul = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word.wrapping_sub(LOW) & !word & (LOW << 7) != 0
    };
    match bytes.last_chunk::<8>() {
        // The last eight bytes overlap the ones before them, so no byte needs a check of its own.
        Some(last) => bytes.as_chunks::<8>().0.iter().any(word_has_nul) || word_has_nul(last),
        None => bytes.contains(&0),
    }
}

#[inline]
fn check_length(what: &'static str, text: &str, max: usize) -> Result<(), NameError> {
    if text.len() > max {
        return Err(NameError::TooLong { what, bytes: text.len(), max });
    }
    Ok(())
}

macro_rules! text_conversions {
    ($($type:ty),*) => {$(
        impl TryFrom<CompactString> for $type {
            type Error = NameError;
            fn try_from(text: CompactString) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }
        impl TryFrom<&str> for $type {
            type Error = NameError;
            fn try_from(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
        impl From<$type> for CompactString {
            fn from(value: $type) -> Self {
                value.0
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
text_conversions!(Name, Subject, CallId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_wrong_text() {
        assert!(matches!(
            Subject::new(&"x".repeat(1_025)),
            Err(NameError::TooLong { bytes: 1_025, max: 1_024, .. })
        ));
        assert!(matches!(Subject::new("a\0b"), Err(NameError::BadCharacter { character: '\0', .. })));
        assert!(matches!(Name::new(""), Err(NameError::Empty { .. })));
        assert!(matches!(Name::new("a b"), Err(NameError::BadCharacter { character: ' ', .. })));
        assert!(matches!(CallId::new(""), Err(NameError::Empty { .. })));
        assert_eq!(Subject::new("").unwrap(), Subject::SHARED);
    }

    #[test]
    fn nul_is_found_at_every_position() {
        for length in 1..40 {
            for at in 0..length {
                let mut text = vec![b'\x01'; length];
                assert!(!has_nul(&text));
                text[at] = 0;
                assert!(has_nul(&text), "{at} of {length}");
            }
        }
    }

    #[test]
    fn a_permit_id_survives_json() {
        let id = PermitId(u128::MAX - 7);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<PermitId>(&text).unwrap(), id);
    }
}
