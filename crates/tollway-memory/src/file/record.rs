//! How a state file is written: a header, then records, each one text line.
//!
//! A record is `CHECKSUM JSON`, and holds all lines that some operations changed together, so that a process killed while
//! it writes cannot tear an operation apart: the record is whole, or it is not one.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use tollway_core::{Account, AccountKey, Fingerprint, Setting, Timestamp};

/// The version of the format.
pub(super) const VERSION: u64 = 1;

const FORMAT: &str = "tollway-state";

/// Longer than any header: what has no line end within it is not ours.
pub(super) const HEADER_BYTES_MAX: u64 = 1_024;

const CHECKSUM_DIGITS: usize = 16;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u64,
}

/// The first line of every file, with its line end.
pub(super) fn header() -> String {
    format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION}}}\n")
}

/// The version that a first line says the file has; none if it is no header of ours.
pub(super) fn version_in(first_line: &[u8]) -> Option<u64> {
    let text = first_line.strip_suffix(b"\n")?;
    let header: Header = serde_json::from_slice(text).ok()?;
    (header.format == FORMAT).then_some(header.version)
}

/// Lines that changed together.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    /// Lines that were as good as new at this time have been forgotten: the store's time is never before it again.
    #[serde(default, skip_serializing_if = "is_epoch")]
    pub(super) forgotten: Timestamp,
    /// All limits that are set, if one of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<Vec<Setting>>,
    /// The lines, each an [`Entry`] that knows its own size.
    pub(super) lines: Vec<Box<RawValue>>,
}

/// One line, or that it is forgotten.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry<L> {
    /// Whose line.
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    pub(super) key: AccountKey,
    /// The line as it is now.
    pub(super) line: Option<L>,
}

impl Entry<Account> {
    /// Reads one line of a record.
    pub(super) fn decode(text: &RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text.get())
    }
}

impl Entry<&Account> {
    /// Writes one line of a record.
    pub(super) fn encode(&self) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(self)
    }
}

/// Why a text line is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is not what was written.
    Damaged,
    /// It is what was written, by somebody who knows more than we do.
    NotUnderstood(String),
}

impl Record {
    /// The record as a text line, with its line end.
    pub(super) fn encode(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{:016x} {json}\n", checksum(&json)))
    }

    /// Reads a text line; it must have its line end, or the writer was cut short.
    pub(super) fn decode(line: &[u8]) -> Result<Self, Flaw> {
        let json = checked(line).ok_or(Flaw::Damaged)?;
        serde_json::from_str(json).map_err(|error| Flaw::NotUnderstood(error.to_string()))
    }
}

/// The part of the line that its checksum vouches for.
fn checked(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (digits, rest) = text.split_at_checked(CHECKSUM_DIGITS)?;
    let json = rest.strip_prefix(' ')?;
    (digits == format!("{:016x}", checksum(json))).then_some(json)
}

fn checksum(json: &str) -> u64 {
    Fingerprint::new().text(json).finish()
}

fn is_epoch(time: &Timestamp) -> bool {
    *time == Timestamp::EPOCH
}

fn write_key<S: Serializer>(key: &AccountKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

fn read_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AccountKey, D::Error> {
    AccountKey::from_str(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::{Name, Subject};

    fn record() -> Record {
        let key =
            AccountKey { policy: Name::new("adobe").unwrap(), subject: Subject::new("a\n\"ß\r b").unwrap() };
        let line = Account::default();
        let lines = vec![Entry { key, line: Some(&line) }.encode().unwrap()];
        Record { forgotten: Timestamp::from_secs(7), settings: None, lines }
    }

    #[test]
    fn a_record_is_one_text_line_and_reads_back() {
        let text = record().encode().unwrap();
        assert_eq!(text.matches('\n').count(), 1, "a subject cannot end the line");
        let read = Record::decode(text.as_bytes()).unwrap();
        assert_eq!(read.forgotten, Timestamp::from_secs(7));
        let entry = Entry::decode(&read.lines[0]).unwrap();
        assert_eq!(entry.key.subject.as_str(), "a\n\"ß\r b");
        assert_eq!(entry.line, Some(Account::default()));
    }

    #[test]
    fn every_changed_byte_and_every_shorter_record_is_noticed() {
        let text = record().encode().unwrap().into_bytes();
        for index in 0..text.len() {
            let mut changed = text.clone();
            changed[index] ^= 1;
            assert_eq!(Record::decode(&changed).err(), Some(Flaw::Damaged), "byte {index}");
            assert_eq!(Record::decode(&text[..index]).err(), Some(Flaw::Damaged), "{index} bytes");
        }
    }

    #[test]
    fn what_is_whole_but_unknown_is_not_called_damaged() {
        let json = "{\"from\":\"the future\"}";
        let text = format!("{:016x} {json}\n", checksum(json));
        assert!(matches!(Record::decode(text.as_bytes()), Err(Flaw::NotUnderstood(_))));
    }

    #[test]
    fn only_our_header_is_one() {
        assert_eq!(version_in(header().as_bytes()), Some(VERSION));
        assert_eq!(version_in(b"{\"format\":\"tollway-state\",\"version\":9,\"new\":1}\n"), Some(9));
        for other in ["", "\n", "{}\n", "{\"format\":\"other\",\"version\":1}\n", "#!/bin/sh\n"] {
            assert_eq!(version_in(other.as_bytes()), None, "{other:?}");
        }
    }
}
