//! A state file of format 1 keeps its bytes, and a file of an earlier release can still be read.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files. `file_format_1.state` is also the old file that is read: once it is
//! committed, only a new format may change it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use tollway_core::Fingerprint;
use tollway_memory::FileStore;
use tollway_testkit::ManualClock;
use tollway_testkit::golden::{LATER, START, compare, late_steps, play, set_limits, steps};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Plays the fixed steps and sets limits, in a new file. Returns the file's bytes and the outcomes.
fn written() -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let clock = Arc::new(ManualClock::at(START));
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let outcomes = play(&store, &clock, &steps());
    set_limits(&store);
    drop(store);
    (fs::read(&path).unwrap(), outcomes)
}

#[derive(serde::Deserialize)]
struct FileRecord<'a> {
    #[serde(borrow, rename = "lines")]
    accounts: Vec<&'a RawValue>,
}

/// The accounts of a record have no fixed order: sorts them. Checks every checksum, and recomputes it after sorting.
fn sorted(file: &[u8]) -> String {
    let text = std::str::from_utf8(file).unwrap();
    let (header, records) = text.split_at(text.find('\n').unwrap() + 1);
    let mut all = header.to_owned();
    for record in records.lines() {
        let (sum, json) = record.split_once(' ').unwrap();
        assert_eq!(sum, checksum(json), "{record}");
        let read: FileRecord<'_> = serde_json::from_str(json).unwrap();
        let entries: Vec<&str> = read.accounts.iter().map(|entry| entry.get()).collect();
        let mut in_order = entries.clone();
        in_order.sort_unstable();
        let json = json.replace(&entries.join(","), &in_order.join(","));
        all += &format!("{} {json}\n", checksum(&json));
    }
    all
}

/// The committed file; the one that is about to be committed while the expected files are rewritten.
fn old_file() -> Vec<u8> {
    match std::env::var_os("UPDATE_GOLDEN") {
        Some(_) => sorted(&written().0).into_bytes(),
        None => fs::read(golden("file_format_1.state")).unwrap(),
    }
}

fn checksum(json: &str) -> String {
    format!("{:016x}", Fingerprint::new().text(json).finish())
}

#[test]
fn a_state_file_keeps_its_bytes() {
    let (file, outcomes) = written();
    compare(&golden("file_format_1.state"), sorted(&file));
    compare(&golden("file_format_1.outcomes.txt"), outcomes);
}

#[test]
fn an_old_state_file_gives_the_expected_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let old = old_file();
    fs::write(&path, &old).unwrap();
    let clock = Arc::new(ManualClock::at(LATER));
    let store = FileStore::open(&path, clock.clone()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), old, "opening a file does not change it");
    compare(&golden("file_format_1.late_outcomes.txt"), play(&store, &clock, &late_steps()));
    drop(store);
    let whole = fs::read(&path).unwrap();
    let (before, appended) = whole.split_at(old.len());
    assert_eq!(before, old, "new records are appended");
    compare(&golden("file_format_1.late_records.txt"), appended);
}
