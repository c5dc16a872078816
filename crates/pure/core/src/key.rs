//! The key of an account: versioned, and different for every (policy, subject).
//!
//! Each part is written with its length, so no caller's text can collide with another key.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Name, NameError, Subject};

/// The version of the key layout. Keys of another version are never misread.
pub const KEY_VERSION: u8 = 1;

/// The key of an account: a policy's name and a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccountKey {
    /// The policy.
    pub policy: Name,
    /// The subject.
    pub subject: Subject,
}

/// A text that is not a key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not of the form `VERSION:LENGTH:POLICY:SUBJECT`.
    #[error("not a key: {0:?}")]
    Malformed(String),
    /// A version this program does not know.
    #[error("a key of version {0}; this program knows version {KEY_VERSION}")]
    Version(u64),
    /// An invalid policy name or subject.
    #[error(transparent)]
    Part(#[from] NameError),
}

crate::debug_as_display!(KeyError);

impl fmt::Display for AccountKey {
    /// `1:5:adobe:team-a`: version, length of the policy's name, the name, then the subject.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_VERSION}:{}:{}:{}", self.policy.as_str().len(), self.policy, self.subject)
    }
}

impl std::str::FromStr for AccountKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::Malformed(text.chars().take(80).collect());
        let (version, rest) = text.split_once(':').ok_or_else(malformed)?;
        let version: u64 = version.parse().map_err(|_| malformed())?;
        if version != u64::from(KEY_VERSION) {
            return Err(KeyError::Version(version));
        }
        let (length, rest) = rest.split_once(':').ok_or_else(malformed)?;
        let length: usize = length.parse().map_err(|_| malformed())?;
        let (policy, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        let subject = rest.strip_prefix(':').ok_or_else(malformed)?;
        Ok(Self { policy: Name::new(policy)?, subject: Subject::new(subject)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(policy: &str, subject: &str) -> AccountKey {
        AccountKey { policy: Name::new(policy).unwrap(), subject: Subject::new(subject).unwrap() }
    }

    /// M4: ("a_b", "c") and ("a", "b_c") shared a counter in two peers.
    #[test]
    fn m4_joined_parts_do_not_share_a_key() {
        for (one, other) in [
            (("a_b", "c"), ("a", "b_c")),
            (("a", "b:c"), ("a.b", "c")),
            (("a", ""), ("a", ":")),
            (("a", "1:1:a:"), ("a", "")),
            (("a", "x\r\ny"), ("a", "x y")),
            (("a", "{x}"), ("a", "x")),
        ] {
            assert_ne!(key(one.0, one.1).to_string(), key(other.0, other.1).to_string());
        }
    }

    proptest! {
        /// Every key parses back to itself, so no two keys have the same text.
        #[test]
        fn keys_read_back(policy in "[a-zA-Z0-9_.-]{1,40}", subject in "[^\0]{0,60}") {
            let key = key(&policy, &subject);
            prop_assert_eq!(key.to_string().parse::<AccountKey>().unwrap(), key);
        }

        /// Text that is not a key is an error, never a panic.
        #[test]
        fn garbage_is_refused(text in ".{0,80}") {
            if let Ok(key) = text.parse::<AccountKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
