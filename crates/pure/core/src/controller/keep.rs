//! The part of a vendor's quotas that is left to people.

use std::fmt;
use std::str::FromStr;

/// The part of a vendor's quotas that calls leave unused, for people who use the same account. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep(u8);

/// Text is no [`Keep`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// Not a whole number of percent.
    #[error("not a whole number of percent")]
    NotPercent,
    /// Calls need a part of the quota, too.
    #[error("not from 0 % to {} %", Keep::MOST)]
    OutOfRange,
}

crate::debug_as_display!(KeepError);

impl Keep {
    /// The most percent that can be kept: with all of it no call could be made.
    pub const MOST: u8 = 99;

    /// So many percent; `None` above [`MOST`](Self::MOST).
    pub fn percent(percent: u8) -> Option<Self> {
        (percent <= Self::MOST).then_some(Self(percent))
    }

    /// Whether nothing is kept.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The units of a quota that are left to people, rounded up.
    pub fn of(self, limit: u64) -> u64 {
        let kept = u128::from(limit).saturating_mul(u128::from(self.0)).div_ceil(100);
        u64::try_from(kept).unwrap_or(limit)
    }
}

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Self, KeepError> {
        let number = text.trim().strip_suffix('%').ok_or(KeepError::NotPercent)?.trim_end();
        let is_whole = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_whole {
            return Err(KeepError::NotPercent);
        }
        number.parse().ok().and_then(Self::percent).ok_or(KeepError::OutOfRange)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_whole_number_of_percent() {
        for (text, percent) in [("10 %", 10), ("10%", 10), (" 0 %", 0), ("99 %", 99)] {
            assert_eq!(text.parse(), Ok(Keep(percent)), "{text}");
            assert_eq!(Keep(percent).to_string().parse(), Ok(Keep(percent)));
        }
        for text in ["", "%", "10", "0.1", "1.5 %", "-1 %", "+1 %", "ten %", "10 % of it"] {
            assert_eq!(text.parse::<Keep>(), Err(KeepError::NotPercent), "{text}");
        }
        for text in ["100 %", "256 %", "99999999999999999999 %"] {
            assert_eq!(text.parse::<Keep>(), Err(KeepError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn is_rounded_up() {
        assert_eq!((Keep(10).of(5_000), Keep(10).of(5), Keep(0).of(5)), (500, 1, 0));
        assert!(Keep(99).of(u64::MAX) < u64::MAX);
    }
}
