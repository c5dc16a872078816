//! Postgres clients that stop while they hold the lock of an account: other clients wait a moment, and the store decides
//! every take. The stopped process is this test itself, started again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tollway::core::{Clock, Subject, Timestamp};
use tollway::{Limiter, Policy, Taken};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;
use tollway_testkit::takes;

/// Nothing here takes so long unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(90);

const LIMIT: u64 = 6_000;

fn policy() -> Policy {
    Policy::new("vendor", [format!("{LIMIT} requests / day from first call").as_str()]).unwrap()
}

/// A limiter that has reached the store.
fn limiter(url: &str) -> Limiter {
    let builder = Limiter::builder().with_policy(policy()).unwrap();
    let limiter = builder.store_at(&url.parse().unwrap()).unwrap().build();
    let begun = Instant::now();
    while limiter.usage("vendor").now().is_err() {
        assert!(begun.elapsed() < HANGS_AFTER, "the store was never reached");
    }
    limiter
}

/// Grants by the store, and decisions without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decisions {
    granted: u64,
    degraded: u64,
}

impl Decisions {
    /// Takes once; false if that was denied.
    fn take(&mut self, limiter: &Limiter) -> bool {
        let (granted, degraded) = match limiter.try_take("vendor").now().unwrap() {
            Taken::Granted(granted) => (true, granted.degraded()),
            Taken::Denied(denied) => (false, denied.degraded()),
        };
        self.granted += u64::from(granted && !degraded);
        self.degraded += u64::from(degraded);
        granted || degraded
    }

    /// Takes on four threads until the limit is used up, with pauses as long as `slowly` says so.
    fn take_all(limiter: &Limiter, slowly: &AtomicBool) -> Self {
        let until_denied = || {
            let mut decisions = Self::default();
            while decisions.take(limiter) {
                if slowly.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            decisions
        };
        thread::scope(|scope| {
            let takers = [(); 4].map(|()| scope.spawn(until_denied));
            takers.into_iter().map(|taker| taker.join().unwrap()).fold(Self::default(), |all, one| Self {
                granted: all.granted + one.granted,
                degraded: all.degraded + one.degraded,
            })
        })
    }
}

/// A clock that blocks its reader for ever once it is told to. The store reads it while it holds the locks.
struct FreezingClock {
    freezes: AtomicBool,
    frozen: mpsc::Sender<()>,
}

impl Clock for FreezingClock {
    fn now(&self) -> Timestamp {
        if self.freezes.load(Ordering::SeqCst) {
            self.frozen.send(()).unwrap();
            loop {
                thread::park();
            }
        }
        Timestamp::from_secs(1_767_225_600)
    }
}

/// Eight clients lock the account one after the other, and none of them ever answers.
#[test]
fn frozen_clients_delay_takes_and_cause_no_fallback() {
    let server = PostgresServer::start();
    let (sender, frozen) = mpsc::channel();
    let clock = Arc::new(FreezingClock { freezes: AtomicBool::new(false), frozen: sender });
    let limiter = limiter(&format!("{}?deadline=3s", server.url()));
    let url = format!("{}?deadline=30s", server.url());
    let stores = [(); 8].map(|()| Arc::new(PostgresStore::with_clock(&url, clock.clone()).unwrap()));
    // Connected and prepared before the first one freezes.
    assert!(stores.iter().all(|store| takes::used(&**store, &policy(), &Subject::SHARED) == 0));
    clock.freezes.store(true, Ordering::SeqCst);
    for store in &stores {
        // Their threads never end.
        let store = Arc::clone(store);
        thread::spawn(move || takes::take(&*store, &[&policy()], &Subject::SHARED));
    }
    frozen.recv_timeout(HANGS_AFTER).unwrap();
    let mut decisions = Decisions::default();
    assert!((0..50).all(|_| decisions.take(&limiter)));
    assert_eq!(decisions, Decisions { granted: 50, degraded: 0 }, "{:?}", limiter.store_status());
    assert_eq!(limiter.store_status().fallbacks, 0);
    assert_eq!(limiter.usage("vendor").now().unwrap().limits[0].used, 50);
    stores.into_iter().for_each(std::mem::forget);
}

/// What tells the second process from the test.
const URL: &str = "TOLLWAY_TEST_FROZEN_URL";

/// Not a test: what the second process does.
#[test]
fn second_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let limiter = limiter(&url);
    let mut first = Decisions::default();
    assert!((0..50).all(|_| first.take(&limiter)));
    writeln!(std::io::stdout(), "\ntakes").unwrap();
    let rest = Decisions::take_all(&limiter, &AtomicBool::new(false));
    let (granted, degraded) = (first.granted + rest.granted, first.degraded + rest.degraded);
    writeln!(std::io::stdout(), "\ndone {granted} {degraded}").unwrap();
}

fn start_second_process(url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["second_process", "--exact", "--nocapture"]).env(URL, url);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_stopped_process_causes_no_fallback_and_no_grant_above_the_limit() {
    let server = PostgresServer::start();
    // Shorter than a stop.
    let limiter = limiter(&format!("{}?deadline=900ms", server.url()));
    let mut child = start_second_process(&format!("{}?deadline=5s", server.url()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "takes"));
    let slowly = AtomicBool::new(true);
    // Not every stop hits a transaction.
    let was_hit = || server.log().contains("idle-in-transaction timeout");
    let ours = thread::scope(|scope| {
        let takes = scope.spawn(|| Decisions::take_all(&limiter, &slowly));
        while !takes.is_finished() && !was_hit() {
            signal(&child, "-STOP");
            thread::sleep(Duration::from_millis(1_500));
            signal(&child, "-CONT");
            thread::sleep(Duration::from_millis(100));
        }
        slowly.store(false, Ordering::SeqCst);
        takes.join().unwrap()
    });
    let done = lines.find_map(|line| Some(line.strip_prefix("done ")?.to_owned())).unwrap();
    let (granted, degraded) = done.split_once(' ').unwrap();
    let theirs = Decisions { granted: granted.parse().unwrap(), degraded: degraded.parse().unwrap() };
    assert!(child.wait().unwrap().success());
    let told = format!("{ours:?}, {theirs:?}, {:?}", limiter.store_status());
    assert!(was_hit(), "never stopped in a transaction: {told}");
    assert_eq!((ours.degraded, limiter.store_status().fallbacks), (0, 0), "{told}");
    assert_eq!((theirs.degraded, ours.granted + theirs.granted), (0, LIMIT), "{told}");
}
