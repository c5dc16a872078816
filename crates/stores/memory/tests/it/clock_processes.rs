//! Processes with different dates share a state file: they agree on one time, and no unit is granted twice.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::file_support::{charges, place, policy, subject, take_of, wait};
use tollway_core::{Clock, Outcome, Span, Store};
use tollway_memory::{FileStore, WallClock};
use tollway_testkit::SteppedClock;

const STATE: &str = "TOLLWAY_TEST_STATE_FILE";
const SET_BACK: &str = "TOLLWAY_TEST_SET_BACK_HOURS";

/// How many units each process takes: more than one window has for all of them.
const GRANTS: usize = 8;
const LIMIT: usize = 5;
const WINDOW_MICROS: u64 = 1_000_000;

/// How often a denied process tries again, for a minute in all. An hour's wait would be far longer.
const PAUSE: Duration = Duration::from_millis(20);
const TRIES: usize = 3_000;

/// More than the time by which two processes may differ.
const APART_MAX: u64 = 20_000;

/// A granted take.
#[derive(Serialize, Deserialize)]
struct Grant {
    /// When, by the store.
    at: u64,
    /// The time of boot by the store's clock, at least and at most.
    boot: (u64, u64),
}

/// The work of a process; without its environment variable this test does nothing.
#[test]
fn child_takes_with_its_date_set_back() {
    let Some(path) = std::env::var_os(STATE) else { return };
    let hours: u64 = std::env::var(SET_BACK).unwrap().parse().unwrap();
    let clock = SteppedClock::of(Arc::new(WallClock));
    clock.set_back(Span::from_hours(hours));
    let store = FileStore::open(Path::new(&path), Arc::new(clock)).unwrap();
    let policy = policy(&format!("{LIMIT} requests / second"));
    let mut left = GRANTS;
    for _ in 0..TRIES {
        if left == 0 {
            return;
        }
        let operation = take_of(charges(&[&policy], &subject("team-a")));
        let outcome = wait(store.apply(&[operation])).unwrap().remove(0);
        let Outcome::Decided(decision) = outcome else { panic!("a take is decided") };
        match decision.is_granted() {
            true => {
                let grant = Grant { at: decision.now.as_micros(), boot: time_of_boot(&store) };
                let line = format!("\ngrant {}\n", serde_json::to_string(&grant).unwrap());
                std::io::stdout().write_all(line.as_bytes()).unwrap();
                left -= 1;
            }
            false => sleep(PAUSE),
        }
    }
    panic!("{left} takes were not granted within a minute");
}

/// The uptime is read before and after the store's time, so that a pause in between does no harm.
fn time_of_boot(store: &FileStore) -> (u64, u64) {
    let uptime = || WallClock.uptime().unwrap().since_boot.as_micros();
    let (before, now, after) = (uptime(), store.clock().unwrap().now().as_micros(), uptime());
    (now - after, now - before)
}

fn spawn(path: &Path, hours: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "clock_processes::child_takes_with_its_date_set_back", "--nocapture"]);
    command.env(STATE, path).env(SET_BACK, hours.to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn grants(mut child: Child) -> Vec<Grant> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let grants = lines.filter_map(|line| serde_json::from_str(line.strip_prefix("grant ")?).ok()).collect();
    assert!(child.wait().unwrap().success());
    grants
}

/// I1, I7: dates an hour and a day back, then the right one again, and all of them at once.
#[test]
fn processes_with_different_dates_agree_on_one_time() {
    let (_directory, path) = place();
    let mut all = grants(spawn(&path, 0));
    for hours in [1, 24, 0] {
        all.extend(grants(spawn(&path, hours)));
    }
    let together: Vec<Child> = [24, 0, 1].into_iter().map(|hours| spawn(&path, hours)).collect();
    together.into_iter().for_each(|child| all.extend(grants(child)));

    assert_eq!(all.len(), 7 * GRANTS);
    let mut windows: Vec<u64> = all.iter().map(|grant| grant.at / WINDOW_MICROS).collect();
    windows.sort_unstable();
    for window in windows.chunk_by(|one, next| one == next) {
        assert!(window.len() <= LIMIT, "{} grants in one window", window.len());
    }
    let earliest = all.iter().map(|grant| grant.boot.1).min().unwrap();
    let latest = all.iter().map(|grant| grant.boot.0).max().unwrap();
    assert!(latest <= earliest + APART_MAX, "processes are {} us apart", latest - earliest);
}
