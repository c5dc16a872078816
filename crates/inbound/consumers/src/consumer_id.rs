//! The id of a consumer.

use std::borrow::Borrow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tollway_core::is_invisible;

use crate::quote::quote;

/// The longest id of a consumer, in bytes: it is part of a key in Redis, and of an index in SQL.
pub const CONSUMER_BYTES_MAX: usize = 255;

/// Separates a consumer and a period in the keys of counters.
const KEY_WORD: &str = "_PER_";

/// The id of a consumer: 1 to 255 bytes of visible characters, without `_PER_`, and no address.
///
/// A clone shares the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(Arc<str>);

/// Why a text is not the id of a consumer.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumerIdError {
    /// Nothing was given.
    #[error("the consumer's id is empty")]
    Empty,
    /// Over the bound.
    #[error("the consumer's id has {0} bytes, more than the {CONSUMER_BYTES_MAX} allowed")]
    TooLong(usize),
    /// A space or an invisible character.
    #[error("the consumer's id contains {0:?}: use visible characters only")]
    Invisible(char),
    /// An address: anonymous callers are counted under their addresses.
    #[error(
        "the consumer's id {0} is an address: its counters would be those of anonymous callers from there"
    )]
    Address(String),
    /// The keys of its counters could collide with another consumer's.
    #[error("the consumer's id {0} contains {KEY_WORD}, which separates ids and periods in keys of counters")]
    KeyWord(String),
}

tollway_core::debug_as_display!(ConsumerIdError);

impl ConsumerId {
    /// Validates the text.
    pub fn new(text: &str) -> Result<Self, ConsumerIdError> {
        if text.is_empty() {
            return Err(ConsumerIdError::Empty);
        }
        if text.len() > CONSUMER_BYTES_MAX {
            return Err(ConsumerIdError::TooLong(text.len()));
        }
        if let Some(character) = text.chars().find(|c| is_invisible(*c) || c.is_whitespace()) {
            return Err(ConsumerIdError::Invisible(character));
        }
        if text.contains(KEY_WORD) {
            return Err(ConsumerIdError::KeyWord(quote(text)));
        }
        let network = text.split('/').next().unwrap_or(text);
        if network.parse::<IpAddr>().is_ok() {
            return Err(ConsumerIdError::Address(quote(text)));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConsumerId {
    type Err = ConsumerIdError;

    fn from_str(text: &str) -> Result<Self, ConsumerIdError> {
        Self::new(text)
    }
}

impl fmt::Display for ConsumerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lets maps of consumers be searched by text.
impl Borrow<str> for ConsumerId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_visible_characters() {
        for text in ["consumer_abc123", "e3b0c442-98fc", "größe", "a_per_b", "_PER", &"x".repeat(255)] {
            assert_eq!(ConsumerId::new(text).unwrap().as_str(), text);
        }
    }

    /// C2, C4: an id becomes part of a key, and so does an address.
    #[test]
    fn the_error_names_what_is_wrong_with_an_id() {
        use ConsumerIdError::{Address, Empty, Invisible, KeyWord, TooLong};
        for (text, error) in [
            ("", Empty),
            (&"x".repeat(256), TooLong(256)),
            ("a b", Invisible(' ')),
            ("a\n", Invisible('\n')),
            ("a\0", Invisible('\0')),
            ("a\u{200b}", Invisible('\u{200b}')),
            ("a\u{202e}b", Invisible('\u{202e}')),
            ("a\u{2028}b", Invisible('\u{2028}')),
            ("a\u{3164}b", Invisible('\u{3164}')),
            ("a_PER_MINUTE", KeyWord("\"a_PER_MINUTE\"".to_owned())),
            ("192.0.2.7", Address("\"192.0.2.7\"".to_owned())),
            ("2001:db8::/64", Address("\"2001:db8::/64\"".to_owned())),
        ] {
            assert_eq!(ConsumerId::new(text), Err(error));
        }
    }
}
