//! The share of every limit that a process enforces by itself while the store does not answer.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fraction such as `1/10`: more than 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalShare {
    parts: NonZeroU32,
    of: NonZeroU32,
}

/// A text that is not a share.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a share of a limit; write a fraction above 0 and up to \"1/1\", like \"1/10\"")]
pub struct LocalShareError(String);

crate::debug_as_display!(LocalShareError);

impl LocalShare {
    /// The share `parts / of`; `None` unless it is more than 0 and at most 1.
    pub fn new(parts: u32, of: u32) -> Option<Self> {
        let (parts, of) = (NonZeroU32::new(parts)?, NonZeroU32::new(of)?);
        (parts <= of).then_some(Self { parts, of })
    }

    /// The share of an amount, rounded down, at least 1.
    pub fn of(self, amount: u64) -> u64 {
        let share = u128::from(amount).saturating_mul(self.parts.get().into());
        let share = share.checked_div(u128::from(self.of.get())).unwrap_or(0);
        u64::try_from(share).unwrap_or(amount).max(1)
    }
}

/// A tenth.
impl Default for LocalShare {
    fn default() -> Self {
        let ten = NonZeroU32::MIN.saturating_add(9);
        Self { parts: NonZeroU32::MIN, of: ten }
    }
}

impl FromStr for LocalShare {
    type Err = LocalShareError;

    fn from_str(text: &str) -> Result<Self, LocalShareError> {
        let read = |part: &str| part.trim().parse().ok();
        let share = text.split_once('/').and_then(|(parts, of)| Self::new(read(parts)?, read(of)?));
        share.ok_or_else(|| LocalShareError(text.chars().take(40).collect()))
    }
}

impl fmt::Display for LocalShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.parts, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down_and_at_least_one() {
        let share = |text: &str, amount| text.parse::<LocalShare>().unwrap().of(amount);
        assert_eq!((share("1/10", 200), share("1/10", 19), share("1/10", 3)), (20, 1, 1));
        assert_eq!((share("2/3", 10), share("1/1", u64::MAX)), (6, u64::MAX));
        assert_eq!(LocalShare::default().to_string(), "1/10");
    }

    #[test]
    fn invalid_shares_are_refused() {
        for text in ["", "1", "0/10", "1/0", "11/10", "-1/10", "a/b", "1/10/2"] {
            assert!(text.parse::<LocalShare>().is_err(), "{text}");
        }
    }
}
