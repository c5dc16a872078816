//! The share of every limit that a process enforces by itself while the store does not answer.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fraction such as `1/10`, more than 0 and at most 1; or [`LocalShare::AUTO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalShare {
    parts: NonZeroU32,
    of: NonZeroU32,
    /// Whether it is also at most one part in as many as there are limiters. An earlier version ignores this field and keeps to
    /// the fraction.
    #[serde(default, skip_serializing_if = "is_false")]
    auto: bool,
}

/// A text that is not a share.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a share of a limit; write \"auto\", or a fraction above 0 and up to \"1/1\", like \"1/10\""
)]
pub struct LocalShareError(String);

crate::debug_as_display!(LocalShareError);

impl LocalShare {
    /// A tenth, and at most one part in as many as there are limiters, so that all of them together keep to the limit.
    pub const AUTO: Self = Self { parts: NonZeroU32::MIN, of: NonZeroU32::MIN.saturating_add(9), auto: true };

    /// The share `parts / of`; `None` unless it is more than 0 and at most 1.
    pub fn new(parts: u32, of: u32) -> Option<Self> {
        let (parts, of) = (NonZeroU32::new(parts)?, NonZeroU32::new(of)?);
        (parts <= of).then_some(Self { parts, of, auto: false })
    }

    /// Whether it depends on how many limiters there are.
    pub fn is_auto(self) -> bool {
        self.auto
    }

    /// The share of an amount among so many limiters, if their number is known: rounded down, at least 1. If it is
    /// [`AUTO`](Self::AUTO) and there are more limiters than units, none of them has a share.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use tollway_core::LocalShare;
    ///
    /// let shares = |limiters| LocalShare::AUTO.among(NonZeroU32::new(limiters), 1_000);
    /// assert_eq!([shares(0), shares(4), shares(64), shares(1_000), shares(1_001)], [100, 100, 15, 1, 0]);
    /// ```
    pub fn among(self, limiters: Option<NonZeroU32>, amount: u64) -> u64 {
        match limiters.filter(|_| self.auto).map(|limiters| u64::from(limiters.get())) {
            Some(limiters) if limiters > amount => 0,
            Some(limiters) => self.of(amount).min(amount.checked_div(limiters).unwrap_or(0)),
            None => self.of(amount),
        }
    }

    /// The fraction of an amount, rounded down, at least 1.
    pub fn of(self, amount: u64) -> u64 {
        let share = u128::from(amount).saturating_mul(self.parts.get().into());
        let share = share.checked_div(u128::from(self.of.get())).unwrap_or(0);
        u64::try_from(share).unwrap_or(amount).max(1)
    }
}

impl Default for LocalShare {
    fn default() -> Self {
        Self::AUTO
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl FromStr for LocalShare {
    type Err = LocalShareError;

    fn from_str(text: &str) -> Result<Self, LocalShareError> {
        if text == "auto" {
            return Ok(Self::AUTO);
        }
        let read = |part: &str| part.trim().parse().ok();
        let share = text.split_once('/').and_then(|(parts, of)| Self::new(read(parts)?, read(of)?));
        share.ok_or_else(|| LocalShareError(text.chars().take(40).collect()))
    }
}

impl fmt::Display for LocalShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.auto {
            return f.write_str("auto");
        }
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
        assert_eq!("1/10".parse::<LocalShare>().unwrap().to_string(), "1/10");
    }

    /// G7: what all limiters grant together is at most what was left, and at most what a tenth was.
    #[test]
    fn automatic_shares_add_up_to_what_was_left_at_most() {
        for limiters in (1..200).filter_map(NonZeroU32::new) {
            for left in 0..2_000 {
                let share = LocalShare::AUTO.among(Some(limiters), left);
                assert!(share * u64::from(limiters.get()) <= left, "{limiters} of {left}: {share}");
                assert!(share <= LocalShare::AUTO.of(left));
                assert_eq!(share > 0, u64::from(limiters.get()) <= left, "{limiters} of {left}: {share}");
            }
        }
        assert_eq!(LocalShare::AUTO.among(None, 1_000), 100, "it never reached the store");
        assert_eq!("1/4".parse::<LocalShare>().unwrap().among(NonZeroU32::new(64), 1_000), 250);
    }

    #[test]
    fn a_share_reads_back_as_itself_and_by_an_earlier_version() {
        for share in ["auto", "1/10", "3/4"] {
            let share: LocalShare = share.parse().unwrap();
            assert_eq!(share.to_string().parse(), Ok(share));
            let text = serde_json::to_string(&share).unwrap();
            assert_eq!(serde_json::from_str::<LocalShare>(&text).unwrap(), share);
        }
        let earlier = serde_json::json!({ "parts": 1, "of": 10 });
        assert_eq!(serde_json::from_value::<LocalShare>(earlier.clone()).unwrap(), "1/10".parse().unwrap());
        let auto = serde_json::to_value(LocalShare::AUTO).unwrap();
        assert!(earlier.as_object().unwrap().iter().all(|(name, value)| auto[name] == *value));
    }

    #[test]
    fn invalid_shares_are_refused() {
        for text in ["", "1", "automatic", "0/10", "1/0", "11/10", "-1/10", "a/b", "1/10/2"] {
            assert!(text.parse::<LocalShare>().is_err(), "{text}");
        }
    }
}
