//! The content of a state file: torn, damaged, foreign, compacted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use crate::file_support::{HandClock, NOON, open, peek, place, policy, subject, take, try_take, used};
use tollway_core::{Policy, Retry, Span, Subject, Timestamp};
use tollway_memory::{FileError, FileStore};

/// The error when the file is opened. The file must not change.
fn refused(path: &Path) -> FileError {
    let before = fs::read(path).unwrap();
    let error = FileStore::open(path, HandClock::at_noon()).unwrap_err();
    assert_eq!(fs::read(path).unwrap(), before, "a refused file is not changed");
    error
}

/// A file with three takes under two policies at once, and how long it was before the last.
fn file_with_three_takes(path: &Path) -> (Vec<Policy>, usize) {
    let policies = ["adobe", "gemini"].map(|name| Policy::new(name, ["10 requests / day"]).unwrap());
    let store = open(path);
    let mut before = 0;
    for _ in 0..3 {
        before = fs::metadata(path).unwrap().len();
        assert!(try_take(&store, &[&policies[0], &policies[1]], &Subject::SHARED).unwrap());
    }
    (policies.into(), usize::try_from(before).unwrap())
}

#[test]
fn torn_tail_of_any_length_is_cut_off() {
    let (_directory, path) = place();
    let (policies, before) = file_with_three_takes(&path);
    let whole = fs::read(&path).unwrap();
    for length in before..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let store = open(&path);
        assert_eq!(fs::metadata(&path).unwrap().len(), u64::try_from(before).unwrap());
        for policy in &policies {
            assert_eq!(used(&store, policy, &Subject::SHARED), 2, "cut to {length} bytes");
        }
    }
}

#[test]
fn open_store_cuts_off_a_torn_tail() {
    let (_directory, path) = place();
    let (policies, before) = file_with_three_takes(&path);
    let whole = fs::read(&path).unwrap();
    let store = open(&path);
    let torn = [&whole[..], &whole[before..whole.len() - 1]].concat();
    fs::write(&path, torn).unwrap();
    assert!(take(&store, &policies[0], &Subject::SHARED));
    assert_eq!(used(&open(&path), &policies[0], &Subject::SHARED), 4);
}

#[test]
fn damaged_end_after_a_power_failure_is_cut_off() {
    let (_directory, path) = place();
    let (policies, before) = file_with_three_takes(&path);
    let whole = fs::read(&path).unwrap();
    for tail in [vec![0; 5_000], [&whole[before..before + 30], b"\0\0\0\n\n\0\0"].concat(), b"\n\n".to_vec()]
    {
        fs::write(&path, [&whole[..before], &tail].concat()).unwrap();
        assert_eq!(used(&open(&path), &policies[1], &Subject::SHARED), 2);
        assert_eq!(fs::read(&path).unwrap(), whole[..before]);
    }
}

#[test]
fn damage_before_good_records_is_refused_with_its_line() {
    let (_directory, path) = place();
    let (policies, _) = file_with_three_takes(&path);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("adobe", "adobf", 2)).unwrap();
    let error = refused(&path);
    assert!(matches!(error, FileError::Damaged { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("limits is damaged in line 2"), "{error}");

    fs::write(&path, &whole).unwrap();
    let store = open(&path);
    fs::write(&path, whole.replacen("adobe", "adobf", 1) + "more").unwrap();
    let error = try_take(&store, &[&policies[0]], &Subject::SHARED).unwrap_err();
    assert!(error.message.contains("line 2") && error.retry == Retry::Useless, "{error}");
    fs::write(&path, &whole).unwrap();
    assert!(take(&store, &policies[0], &Subject::SHARED), "a repaired file is read again");
}

#[test]
fn record_of_a_later_release_is_refused_and_not_cut_off() {
    let (_directory, path) = place();
    drop(open(&path));
    let json = r#"{"lines":[{"key":"2:adobe","line":null}]}"#;
    let sum = tollway_core::Fingerprint::new().text(json).finish();
    fs::write(&path, format!("{}{sum:016x} {json}\n", fs::read_to_string(&path).unwrap())).unwrap();
    let error = refused(&path);
    assert!(matches!(error, FileError::NotUnderstood { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let (directory, path) = place();
    for text in ["my thesis\n", "{}\n", "\0\0\0\0", &"x".repeat(100_000)] {
        fs::write(&path, text).unwrap();
        assert!(matches!(refused(&path), FileError::NotOurs(_)));
    }
    fs::write(&path, "{\"format\":\"tollway-state\",\"version\":7}\nwhatever\n").unwrap();
    assert!(matches!(refused(&path), FileError::OtherVersion { version: 7, .. }));
    let error = FileStore::open(directory.path(), HandClock::at_noon()).unwrap_err();
    assert!(matches!(error, FileError::Directory(_)) && error.to_string().contains("is a directory"));
    let below_a_file = FileStore::open(path.join("limits"), HandClock::at_noon()).unwrap_err();
    assert!(matches!(below_a_file, FileError::Io { .. }), "{below_a_file}");
}

#[test]
fn an_empty_file_is_a_new_one() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    assert!(take(&open(&path), &policy("1 requests / day"), &Subject::SHARED));
    assert!(!take(&open(&path), &policy("1 requests / day"), &Subject::SHARED));
}

#[cfg(unix)]
#[test]
fn new_file_is_private_and_compaction_keeps_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, _) = place();
    let path = directory.path().join("made/for/this").join("limits");
    let store = open(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.with_extension("lock"))), (0o600, 0o600));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    compact(&store, &path);
    assert_eq!(mode(&path), 0o640);
}

/// Takes until the file has been replaced by a shorter one.
fn compact(store: &FileStore, path: &Path) {
    let (policy, busy) = (Policy::new("busy", ["1M requests / day"]).unwrap(), subject("busy"));
    let size = || fs::metadata(path).unwrap().len();
    let mut before = size();
    for _ in 0..10_000 {
        assert!(take(store, &policy, &busy));
        if size() < before {
            return;
        }
        before = size();
    }
    panic!("never compacted");
}

#[test]
fn compaction_keeps_live_accounts_and_other_processes_follow() {
    let (_directory, path) = place();
    let clock = HandClock::at_noon();
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let (minute, day) = (policy("5 requests / minute"), Policy::new("daily", ["5 requests / day"]).unwrap());
    let (soon, live) = (subject("soon-forgotten"), subject("live"));
    assert!(take(&store, &minute, &soon) && take(&store, &day, &live));
    let reader = FileStore::open(&path, clock.clone()).unwrap();
    assert_eq!(used(&reader, &minute, &soon), 1);

    clock.set(NOON.plus(Span::from_mins(2)));
    compact(&store, &path);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("live") && !text.contains("soon-forgotten"), "{text}");
    assert!(text.len() < 2_000);
    for store in [&store, &reader, &FileStore::open(&path, clock).unwrap()] {
        assert_eq!(used(store, &day, &live), 1);
        assert_eq!(used(store, &minute, &soon), 0);
    }
    assert!(take(&reader, &day, &live));
    assert_eq!(used(&store, &day, &live), 2);
}

/// I6, I7: an account was deleted because its minute was over; then the clock is set back into that minute.
#[test]
fn clock_set_back_does_not_reopen_deleted_accounts() {
    let (_directory, path) = place();
    let clock = HandClock::at_noon();
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let minute = policy("1 requests / minute");
    assert!(take(&store, &minute, &subject("a")));
    clock.set(NOON.plus(Span::from_mins(5)));
    compact(&store, &path);
    for time in [NOON, Timestamp::EPOCH] {
        clock.set(time);
        for store in [&store, &FileStore::open(&path, clock.clone()).unwrap()] {
            let at = peek(store, &minute, &subject("a")).as_of;
            assert_eq!(at, NOON.plus(Span::from_mins(1)), "the end of the deleted minute");
        }
    }
}
