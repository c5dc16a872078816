//! Clients that die or stop in the middle of a transaction, while they hold locks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use support::{fresh_schema, policy, server, store, subject, try_take, used};
use tollway_core::{Clock, Subject, Timestamp};
use tollway_postgres::PostgresStore;

const URL: &str = "TOLLWAY_TEST_POSTGRES_URL";

/// The store reads its clock when it holds the locks: what stops there stops in the middle of a transaction.
struct StopsForEver;

impl Clock for StopsForEver {
    fn now(&self) -> Timestamp {
        let mut out = std::io::stdout();
        out.write_all(b"\nholds the locks\n").unwrap();
        out.flush().unwrap();
        loop {
            thread::park();
        }
    }
}

/// What a child does; without its variable this is not a child, and nothing.
#[test]
fn child_stops_in_the_middle_of_a_transaction() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = PostgresStore::with_clock(&url, Arc::new(StopsForEver)).unwrap();
    let _ = support::take(&store, &[&policy("10 requests / day")], &Subject::SHARED);
}

#[test]
fn a_killed_process_leaves_no_locks_and_no_count() {
    let schema = fresh_schema();
    let policy = policy("10 requests / day");
    let store = store(&schema);
    assert_eq!(used(&store, &policy, &Subject::SHARED), 0);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_stops_in_the_middle_of_a_transaction", "--nocapture"])
        .env(URL, support::url(&schema))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line == "holds the locks"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(try_take(&store, &policy, &Subject::SHARED));
    assert_eq!(used(&store, &policy, &Subject::SHARED), 1, "what was not committed has not happened");
}

/// Stops once, says so, and goes on when the other end of the second channel is dropped.
struct StopsOnce(Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

impl Clock for StopsOnce {
    fn now(&self) -> Timestamp {
        let first = self.0.lock().unwrap().take();
        if let Some((holds, goes_on)) = first {
            holds.send(()).unwrap();
            let _ = goes_on.recv();
        }
        Timestamp::from_secs(1_767_225_600)
    }
}

/// Others continue without it, and what it then tries to write is not applied, so it decides again.
#[test]
fn a_frozen_process_blocks_no_other_and_counts_once_when_resumed() {
    let schema = fresh_schema();
    let policy = policy("3 requests / day");
    let ((holds, held), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let clock = Arc::new(StopsOnce(Mutex::new(Some((holds, goes_on)))));
    let frozen = support::store_with_clock(&schema, clock.clone());
    thread::scope(|scope| {
        let go_on = go_on;
        let slow = scope.spawn(|| try_take(&frozen, &policy, &subject("s")));
        held.recv().unwrap();
        let others = support::store_with_clock(&schema, clock.clone());
        assert!(try_take(&others, &policy, &subject("s")), "the lock was freed");
        drop(go_on);
        assert!(slow.join().unwrap());
        assert_eq!(used(&others, &policy, &subject("s")), 2);
    });
    assert!(server().log().contains("idle-in-transaction timeout"), "{}", server().log());
}
