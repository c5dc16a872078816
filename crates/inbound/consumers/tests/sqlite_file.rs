//! Records in a file that several processes share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use futures_util::FutureExt;
use rusqlite::Connection;
use support::{consumer, draft, soon, until, writer};
use tempfile::TempDir;
use tollway_consumers::{ActiveCache, Amounts, Records, RecordsFault, SqliteRecords};
use tollway_core::{Retry, Timestamp};

/// Some time in 2026.
const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

fn place() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.db").to_str().unwrap().to_owned();
    (folder, path)
}

fn open_at(path: &str) -> SqliteRecords {
    SqliteRecords::open(&format!("sqlite:{path}")).unwrap()
}

fn open() -> (TempDir, SqliteRecords) {
    let (folder, path) = place();
    (folder, open_at(&path))
}

support::scenarios::holds_for!(open());

#[test]
fn records_persist_across_reopening() {
    let (_folder, path) = place();
    let made = soon(open_at(&path).create(draft("c", 100))).unwrap();
    assert_eq!(soon(open_at(&path).consumer(&consumer("c"))).unwrap().records, [made]);
}

/// Earlier versions refused records of one scope that overlap.
#[test]
fn a_file_of_an_earlier_version_keeps_its_records_and_accepts_overlapping_ones() {
    let (_folder, path) = place();
    let old = Connection::open(&path).unwrap();
    for migration in [
        include_str!("../src/records/sqlite/migrations/1.sql"),
        include_str!("../src/records/sqlite/migrations/2.sql"),
    ] {
        old.execute_batch(migration).unwrap();
    }
    old.execute_batch(
        "INSERT INTO records VALUES ('67e55044-10b1-426f-9247-bb680e5fe0c8', 'c', NULL, NULL, NULL, 0, 1800000000000000,
                                     -1, 100, -1, -1, -1, -1, 0, 0);
         PRAGMA user_version = 2",
    )
    .unwrap();
    drop(old);
    let records = open_at(&path);
    soon(records.create(draft("c", 50))).unwrap();
    soon(records.create(draft("c", 50))).unwrap();
    let found = soon(records.consumer(&consumer("c"))).unwrap().records;
    let amounts: Vec<i64> = found.iter().map(|record| record.draft.amounts.all()[1]).collect();
    assert_eq!(amounts, [100, 50, 50]);
}

/// C3: a change is in force on every server that shares the records.
#[test]
fn a_change_by_one_handle_invalidates_the_cache_of_another() {
    let (_folder, path) = place();
    let (one, other) = (open_at(&path), Arc::new(open_at(&path)));
    let cache = ActiveCache::new(Arc::<SqliteRecords>::clone(&other), Amounts::NONE);
    let blocked = || soon(cache.active(&consumer("c"), NOW)).unwrap().blocked;
    let mut watch = other.changes();
    for flag in [true, false, true] {
        assert_eq!(blocked(), !flag);
        let before = watch.borrow().number;
        soon(one.set_blocked(&consumer("c"), flag)).unwrap();
        until(&mut watch, |generation| generation.number > before);
        assert_eq!(blocked(), flag);
    }
}

#[test]
fn concurrent_opens_create_the_tables_once() {
    for _ in 0..5 {
        let (_folder, path) = place();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for number in 0..8 {
                let (path, barrier) = (&path, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    soon(open_at(path).create(draft(&format!("c{number}"), 1))).unwrap();
                });
            }
        });
        assert_eq!(soon(open_at(&path).consumers(None, 100)).unwrap().len(), 8);
    }
}

/// Concurrent writes of several processes wait for each other; none is lost, none fails.
#[test]
fn concurrent_writers_wait_for_each_other() {
    let (_folder, path) = place();
    let handles: Vec<SqliteRecords> = (0..4).map(|_| open_at(&path)).collect();
    thread::scope(|scope| {
        for (number, records) in handles.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20 {
                    soon(records.create(draft(&format!("c{number}-{round}"), 1))).unwrap();
                }
            });
        }
    });
    assert_eq!(soon(handles[0].consumers(None, 100)).unwrap().len(), 80);
}

fn refused(path: &str) -> String {
    let error = SqliteRecords::open(&format!("sqlite:{path}")).err().unwrap();
    assert_eq!((error.fault, error.retry), (RecordsFault::Storage, Retry::Useless), "{error}");
    error.message
}

#[test]
fn a_file_of_a_newer_version_is_not_touched() {
    let (_folder, path) = place();
    drop(open_at(&path));
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let message = refused(&path);
    assert!(message.contains("version 99") && message.contains("newer Tollway"), "{message}");
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn files_of_other_programs_are_not_touched() {
    let (_folder, path) = place();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine (n)").unwrap();
    assert!(refused(&path).contains("tables of another program"));
    let (_folder, path) = place();
    std::fs::write(&path, "dear diary, ".repeat(1_000)).unwrap();
    assert!(refused(&path).contains("name another file"));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("dear diary"));
}

#[test]
fn the_error_names_a_missing_folder() {
    let (folder, _) = place();
    let path = folder.path().join("missing").join("records.db");
    let message = refused(path.to_str().unwrap());
    assert!(message.contains("there is no folder") && message.contains("make it first"), "{message}");
}

/// WAL, which can lose commits, is never used, even if another program set the file to it.
#[test]
fn a_file_in_wal_mode_is_set_to_delete_mode() {
    let (_folder, path) = place();
    drop(open_at(&path));
    let mode = |sql: &str| -> String {
        Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // The threads of the handle above may need a moment to close the file.
    while mode("PRAGMA journal_mode = WAL") != "wal" {}
    let records = open_at(&path);
    soon(records.create(draft("c", 1))).unwrap();
    assert_eq!(mode("PRAGMA journal_mode"), "delete");
}

#[test]
fn an_invalid_record_is_reported_and_others_are_readable() {
    let (_folder, path) = place();
    let records = open_at(&path);
    for name in ["good", "bad"] {
        soon(records.create(draft(name, 1))).unwrap();
    }
    let spoil = "UPDATE records SET per_minute = -5 WHERE consumer = 'bad'";
    Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
    let error = soon(records.consumer(&consumer("bad"))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::Storage, Retry::Useless));
    assert!(error.message.contains("per_minute_call_limit is -5"), "{error}");
    assert_eq!(soon(records.consumer(&consumer("good"))).unwrap().records.len(), 1);
}

/// A process that hangs in its commit does not block others forever.
#[test]
fn a_locked_file_is_an_error_until_it_is_released() {
    let (_folder, path) = place();
    let records = open_at(&path);
    let mut watch = records.changes();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = soon(records.consumer(&consumer("c"))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::Storage, Retry::Safe), "{error}");
    until(&mut watch, |generation| !generation.followed);
    holder.execute_batch("COMMIT").unwrap();
    until(&mut watch, |generation| generation.followed);
    assert!(!soon(records.consumer(&consumer("c"))).unwrap().is_known());
}

#[test]
fn a_full_queue_rejects_requests_at_once() {
    let (_folder, path) = place();
    let records = open_at(&path);
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut answers: Vec<_> = (0..2_000).map(|_| records.consumer(&consumer("c"))).collect();
    let last = answers.pop().unwrap().now_or_never();
    assert_eq!(last.unwrap().unwrap_err().fault, RecordsFault::Busy);
    holder.execute_batch("COMMIT").unwrap();
    soon(answers.swap_remove(500)).unwrap();
}

/// Not a test by itself: the body of the child process.
#[test]
fn child_writes_until_killed() {
    writer::write_until_killed();
}

#[test]
fn a_change_by_another_process_is_seen() {
    let (_folder, path) = place();
    let records = open_at(&path);
    let mut watch = records.changes();
    let child = writer::spawn("child_writes_until_killed", &format!("sqlite:{path}"));
    until(&mut watch, |generation| generation.number > 0);
    let names = writer::kill_after(child, 1);
    assert!(soon(records.consumer(&consumer(&names[0]))).unwrap().is_known());
}

/// Every acknowledged change survives, whichever process is killed at any moment.
#[test]
fn killed_processes_lose_no_acknowledged_change() {
    let (_folder, path) = place();
    drop(open_at(&path));
    for round in 0..6 {
        let children: Vec<_> =
            (0..3).map(|_| writer::spawn("child_writes_until_killed", &format!("sqlite:{path}"))).collect();
        let kill = |(number, child)| thread::spawn(move || writer::kill_after(child, 1 + 5 * number + round));
        let threads: Vec<_> = children.into_iter().enumerate().map(kill).collect();
        let names: Vec<String> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let records = open_at(&path);
        assert!(names.len() >= 3);
        for name in names {
            assert_eq!(soon(records.consumer(&consumer(&name))).unwrap().records.len(), 1, "{name}");
        }
        let check = "PRAGMA integrity_check";
        let whole: String = Connection::open(&path).unwrap().query_row(check, [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}

/// Another user exchanges the file and a link all the time: its target is never created.
#[test]
fn records_are_not_opened_through_a_link() {
    let (folder, path) = place();
    let in_folder = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(in_folder("target"), &path).unwrap();
    let refused = SqliteRecords::open(&format!("sqlite:{path}")).err().unwrap();
    assert!(refused.message.contains("it is a symbolic link"), "{refused}");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::fs::remove_file(&path).unwrap();
                std::os::unix::fs::symlink(in_folder("target"), in_folder("link")).unwrap();
                std::fs::rename(in_folder("link"), &path).unwrap();
            }
        });
        for _ in 0..300 {
            let _ = SqliteRecords::open(&format!("sqlite:{path}"));
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(!in_folder("target").exists(), "the link was followed");
    // A link to a folder is one that the operator made.
    std::os::unix::fs::symlink(folder.path(), in_folder("linked")).unwrap();
    open_at(in_folder("linked/own.db").to_str().unwrap());
    assert!(in_folder("own.db").exists());
}
