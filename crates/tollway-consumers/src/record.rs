//! Records: who may call how often, from when to when.

use std::fmt;
use std::str::FromStr;

use tollway_core::Timestamp;
use uuid::Uuid;

use crate::amounts::Amounts;
use crate::consumer_id::ConsumerId;
use crate::quote::quote;
use crate::scope::Scope;
use crate::validity::Validity;

/// What a record is to be. Each part was checked when it was made, so every draft can become a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Whose.
    pub consumer: ConsumerId,
    /// What for.
    pub scope: Scope,
    /// From when to when.
    pub validity: Validity,
    /// How many calls.
    pub amounts: Amounts,
}

/// A record that is kept.
///
/// A consumer may have several at the same time, of different scopes; they are added up. A second one of the same scope whose
/// range overlaps is taken for a mistake and refused: to get another limit, change the existing record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its id, drawn by us.
    pub id: RecordId,
    /// What it says.
    pub draft: Draft,
    /// When it was made, by the clock of where it is kept.
    pub created_at: Timestamp,
    /// When it was last changed, by the same clock.
    pub updated_at: Timestamp,
}

/// The id of a record: a UUID, written in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(Uuid);

/// A text that is no id of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not the id of a record: ids look like 67e55044-10b1-426f-9247-bb680e5fe0c8")]
pub struct RecordIdError(String);

impl RecordId {
    /// A new one.
    pub(crate) fn draw() -> Self {
        Self(Uuid::new_v4())
    }
}

impl FromStr for RecordId {
    type Err = RecordIdError;

    fn from_str(text: &str) -> Result<Self, RecordIdError> {
        let wrong = || RecordIdError(quote(text));
        let id = Self(Uuid::try_parse(text).map_err(|_| wrong())?);
        // One way to write an id, so that texts can be compared.
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
    fn ids_are_drawn_and_read_again() {
        let id = RecordId::draw();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(RecordId::draw(), id);
    }

    #[test]
    fn what_is_no_id_is_named() {
        let upper = RecordId::draw().to_string().to_uppercase().replace(|c: char| c.is_ascii_digit(), "A");
        let simple = RecordId::draw().to_string().replace('-', "");
        for text in ["", "7", "../x", upper.as_str(), simple.as_str()] {
            assert_eq!(text.parse::<RecordId>(), Err(RecordIdError(quote(text))));
        }
    }
}
