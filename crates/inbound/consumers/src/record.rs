//! Records: how often a consumer may call, from when to when.

use std::fmt;
use std::str::FromStr;

use tollway_core::Timestamp;
use uuid::Uuid;

use crate::amounts::Amounts;
use crate::consumer_id::ConsumerId;
use crate::quote::quote;
use crate::scope::Scope;
use crate::validity::Validity;

/// The content of a record. Every part was validated when it was built, so every draft is a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The consumer.
    pub consumer: ConsumerId,
    /// What the record is for.
    pub scope: Scope,
    /// When it is valid.
    pub validity: Validity,
    /// How many calls it allows.
    pub amounts: Amounts,
}

/// A stored record.
///
/// A consumer may have several that are valid at the same time, of different scopes or of the same one; they add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its random id.
    pub id: RecordId,
    /// Its content.
    pub draft: Draft,
    /// When it was created, by the clock of the database.
    pub created_at: Timestamp,
    /// When it was last changed, by the same clock.
    pub updated_at: Timestamp,
}

/// The id of a record: a UUID, written in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(Uuid);

/// Why a text is not the id of a record.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not the id of a record: ids look like 67e55044-10b1-426f-9247-bb680e5fe0c8")]
pub struct RecordIdError(String);

tollway_core::debug_as_display!(RecordIdError);

impl RecordId {
    /// A new random id.
    pub(crate) fn draw() -> Self {
        Self(Uuid::new_v4())
    }
}

impl FromStr for RecordId {
    type Err = RecordIdError;

    fn from_str(text: &str) -> Result<Self, RecordIdError> {
        let wrong = || RecordIdError(quote(text));
        let id = Self(Uuid::try_parse(text).map_err(|_| wrong())?);
        // Accept only the canonical form, so that ids can be compared as text.
        if id.to_string() == text { Ok(id) } else { Err(wrong()) }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_text() {
        let id = RecordId::draw();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(RecordId::draw(), id);
    }

    #[test]
    fn an_invalid_id_is_quoted_in_the_error() {
        let upper = RecordId::draw().to_string().to_uppercase().replace(|c: char| c.is_ascii_digit(), "A");
        let simple = RecordId::draw().to_string().replace('-', "");
        for text in ["", "7", "../x", upper.as_str(), simple.as_str()] {
            assert_eq!(text.parse::<RecordId>(), Err(RecordIdError(quote(text))));
        }
    }
}
