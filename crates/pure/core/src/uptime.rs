//! A time that goes on by the machine's uptime, whatever becomes of its date.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::time::{Span, Timestamp};

/// A boot of a machine: no other boot has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub u128);

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Why a text is not a [`BootId`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a boot: 32 hexadecimal digits, with or without hyphens")]
pub struct BootIdError(String);

crate::debug_as_display!(BootIdError);

impl FromStr for BootId {
    type Err = BootIdError;

    /// Reads it as this type and the system write it: `8c0e6d4e-23b1-4d0c-9fd7-0c0f0d5a6b11`.
    fn from_str(text: &str) -> Result<Self, BootIdError> {
        let digits: String = text.chars().filter(|character| *character != '-').collect();
        let is_hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let id = is_hex.then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        id.map(Self).ok_or_else(|| BootIdError(text.to_owned()))
    }
}

impl Serialize for BootId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BootId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A reading of the machine's boot clock, which all its processes share. It goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// Which boot.
    pub boot: BootId,
    /// How long ago it was.
    pub since_boot: Span,
}

/// A time, and the machine's uptime at that moment. It is kept with a state, so that every later process of the same boot
/// goes on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeAnchor {
    /// The boot.
    pub boot: BootId,
    /// How long ago it was.
    pub since_boot: Span,
    /// The time then.
    pub at: Timestamp,
}

impl TimeAnchor {
    /// This time at this uptime.
    pub fn new(at: Timestamp, uptime: Uptime) -> Self {
        Self { boot: uptime.boot, since_boot: uptime.since_boot, at }
    }

    /// The time at a later uptime. `None` if that is of another boot.
    pub fn time_at(&self, uptime: Uptime) -> Option<Timestamp> {
        let same = uptime.boot == self.boot && uptime.since_boot >= self.since_boot;
        let passed =
            Span::from_micros(uptime.since_boot.as_micros().saturating_sub(self.since_boot.as_micros()));
        same.then(|| self.at.plus(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8c0e6d4e-23b1-4d0c-9fd7-0c0f0d5a6b11";

    #[test]
    fn boot_id_is_read_as_the_system_and_as_we_write_it() {
        let id: BootId = UUID.parse().unwrap();
        assert_eq!(id.to_string(), UUID.replace('-', ""));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        for wrong in ["", "8c0e6d4e", "+c0e6d4e23b14d0c9fd70c0f0d5a6b11", &UUID.replace('8', "x")] {
            assert!(wrong.parse::<BootId>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_anchor_goes_on_within_its_boot_only() {
        let boot = UUID.parse().unwrap();
        let at = |seconds| Uptime { boot, since_boot: Span::from_secs(seconds) };
        let anchor = TimeAnchor::new(Timestamp::from_secs(1_000), at(60));
        assert_eq!(anchor.time_at(at(60)), Some(Timestamp::from_secs(1_000)));
        assert_eq!(anchor.time_at(at(3_660)), Some(Timestamp::from_secs(4_600)));
        assert_eq!(anchor.time_at(at(59)), None, "a reading from before it is not of this boot");
        assert_eq!(anchor.time_at(Uptime { boot: BootId(1), ..at(61) }), None);
    }
}
