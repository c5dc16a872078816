//! The format of a state file: a header, then records, each one text line.
//!
//! A record is `CHECKSUM JSON` and holds all accounts that some operations changed together. A process killed during a
//! write leaves no half of an operation: a partial record fails its checksum.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use tollway_core::{Account, AccountKey, Fingerprint, Setting, TimeAnchor, Timestamp};

/// The version of the format.
pub(super) const VERSION: u64 = 1;

const FORMAT: &str = "tollway-state";

/// Longer than any header: a file without a line end in its first bytes is not a state file.
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

/// The format version in the first line; `None` if it is not a header.
pub(super) fn version_in(first_line: &[u8]) -> Option<u64> {
    let text = first_line.strip_suffix(b"\n")?;
    let header: Header = serde_json::from_slice(text).ok()?;
    (header.format == FORMAT).then_some(header.version)
}

/// Accounts that changed together.
#[derive(Serialize, Deserialize)]
pub(super) struct FileRecord {
    /// Accounts that expired by this time have been deleted: the store's time never goes back behind it.
    #[serde(default, skip_serializing_if = "is_epoch")]
    pub(super) forgotten: Timestamp,
    /// From which time, and from which reading of the boot clock, the store's time goes on. Releases that do not know it ignore
    /// it: for them, accounts stand still while the clock is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<TimeAnchor>,
    /// All settings, if one of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<Vec<Setting>>,
    /// The accounts, each a JSON [`Entry`], kept as text because its size is needed.
    #[serde(rename = "lines")]
    pub(super) accounts: Vec<Box<RawValue>>,
}

/// One account, or its deletion.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry<A> {
    /// The key of the account.
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    pub(super) key: AccountKey,
    /// The account as it is now; `None` if it was deleted.
    #[serde(rename = "line")]
    pub(super) account: Option<A>,
}

impl Entry<Account> {
    /// Reads one account of a record.
    pub(super) fn decode(text: &RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text.get())
    }
}

impl Entry<&Account> {
    /// Writes one account of a record.
    pub(super) fn encode(&self) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(self)
    }
}

/// Why a text line is not a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    /// The checksum does not match.
    Damaged,
    /// The checksum matches, but a later release wrote it.
    NotUnderstood(String),
}

impl FileRecord {
    /// The record as a text line, with its line end.
    pub(super) fn encode(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{:016x} {json}\n", checksum(&json)))
    }

    /// Reads a text line. Without its line end the write was incomplete.
    pub(super) fn decode(line: &[u8]) -> Result<Self, RecordError> {
        let json = checked(line).ok_or(RecordError::Damaged)?;
        serde_json::from_str(json).map_err(|error| RecordError::NotUnderstood(error.to_string()))
    }
}

/// The JSON of a text line, if its checksum matches.
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

    fn record() -> FileRecord {
        let key =
            AccountKey { policy: Name::new("adobe").unwrap(), subject: Subject::new("a\n\"ß\r b").unwrap() };
        let account = Account::default();
        let accounts = vec![Entry { key, account: Some(&account) }.encode().unwrap()];
        FileRecord { forgotten: Timestamp::from_secs(7), clock: None, settings: None, accounts }
    }

    #[test]
    fn a_record_is_one_text_line_and_reads_back() {
        let text = record().encode().unwrap();
        assert_eq!(text.matches('\n').count(), 1, "a subject cannot end the line");
        let read = FileRecord::decode(text.as_bytes()).unwrap();
        assert_eq!(read.forgotten, Timestamp::from_secs(7));
        let entry = Entry::decode(&read.accounts[0]).unwrap();
        assert_eq!(entry.key.subject.as_str(), "a\n\"ß\r b");
        assert_eq!(entry.account, Some(Account::default()));
    }

    #[test]
    fn changed_bytes_and_truncation_are_detected() {
        let text = record().encode().unwrap().into_bytes();
        for index in 0..text.len() {
            let mut changed = text.clone();
            changed[index] ^= 1;
            assert_eq!(FileRecord::decode(&changed).err(), Some(RecordError::Damaged), "byte {index}");
            assert_eq!(FileRecord::decode(&text[..index]).err(), Some(RecordError::Damaged), "{index} bytes");
        }
    }

    #[test]
    fn intact_record_of_a_later_release_is_not_damaged() {
        let json = "{\"from\":\"the future\"}";
        let text = format!("{:016x} {json}\n", checksum(json));
        assert!(matches!(FileRecord::decode(text.as_bytes()), Err(RecordError::NotUnderstood(_))));
    }

    #[test]
    fn other_headers_are_rejected() {
        assert_eq!(version_in(header().as_bytes()), Some(VERSION));
        assert_eq!(version_in(b"{\"format\":\"tollway-state\",\"version\":9,\"new\":1}\n"), Some(9));
        for other in ["", "\n", "{}\n", "{\"format\":\"other\",\"version\":1}\n", "#!/bin/sh\n"] {
            assert_eq!(version_in(other.as_bytes()), None, "{other:?}");
        }
    }
}
