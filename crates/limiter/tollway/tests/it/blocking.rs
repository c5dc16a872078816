//! The limiter on plain threads, and what happens where the two worlds meet.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tollway::{Limiter, Span, TakeError, Timestamp};
use tollway_testkit::ManualClock;

/// Only so that a test that fails ends; nothing is measured against it.
const DEADLINE: Duration = Duration::from_secs(30);

const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

fn limiter(limit: &str) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    (Limiter::builder().policy("api", [limit]).unwrap().clock(clock.clone()).build(), clock)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// A limiter of a config file with a file store, as two programs on one machine would have it.
fn on_file(folder: &Path) -> Limiter {
    let config = folder.join("tollway.toml");
    let text = format!(
        "[store]\nurl = \"file:{}\"\n[policies.api]\nlimits = [\"4 requests / day from first call\"]\n",
        folder.join("limits").display()
    );
    std::fs::write(&config, text).unwrap();
    Limiter::from_config_blocking(config).unwrap()
}

fn used(limiter: &Limiter) -> u64 {
    limiter.usage("api").now().unwrap().limits[0].used
}

#[test]
fn takes_work_on_a_thread_without_a_runtime() {
    let (limiter, _clock) = limiter("2 / minute");
    assert!(limiter.try_take("api").now().unwrap().is_granted());
    drop(limiter.take("api").wait().unwrap());
    assert!(!limiter.try_take("api").now().unwrap().is_granted());
    let error = limiter.take("api").max_wait(Duration::from_secs(59)).wait().unwrap_err();
    assert!(error.denied().is_some(), "{error}");
    limiter.reset("api").now().unwrap();
    assert_eq!(used(&limiter), 0);
}

/// Starts a thread that waits for a permit and tells its number when it has it.
fn waiting_thread(limiter: &Limiter, number: usize, tell: &Sender<usize>) {
    let (limiter, tell) = (limiter.clone(), tell.clone());
    std::thread::spawn(move || {
        let permit = limiter.take("api").wait().unwrap();
        tell.send(number).unwrap();
        drop(permit);
    });
}

fn next(granted: &Receiver<usize>) -> usize {
    granted.recv_timeout(DEADLINE).unwrap()
}

/// B4: tasks and threads share one queue.
#[test]
fn threads_that_wait_are_served_in_order() {
    const THREADS: usize = 6;
    let (limiter, clock) = limiter("100 / second paced");
    let place = |number: usize| START.plus(Span::from_millis(10 * number as u64));
    drop(limiter.take("api").wait().unwrap());
    let (tell, granted) = channel();
    for number in 1..=THREADS {
        waiting_thread(&limiter, number, &tell);
        while limiter.usage("api").now().unwrap().limits[0].as_of < place(number) {
            std::thread::yield_now();
        }
    }
    assert!(granted.try_recv().is_err(), "time stands still");
    for number in 1..=THREADS {
        clock.set(place(number));
        assert_eq!(next(&granted), number);
        assert!(granted.try_recv().is_err(), "only one has its time");
    }
}

#[test]
fn a_slot_dropped_by_one_thread_goes_to_another() {
    let (limiter, _clock) = limiter("1 concurrent");
    let (tell, granted) = channel();
    let permit = limiter.take("api").wait().unwrap();
    for number in 0..5 {
        waiting_thread(&limiter, number, &tell);
    }
    drop(permit);
    let mut all: Vec<_> = (0..5).map(|_| next(&granted)).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4]);
}

/// A thread and a task wait on one limiter, and both are served.
#[test]
fn threads_and_tasks_share_a_limiter() {
    let (limiter, _clock) = limiter("1 concurrent");
    let (tell, granted) = channel();
    let permit = limiter.take("api").wait().unwrap();
    waiting_thread(&limiter, 1, &tell);
    let task = {
        let limiter = limiter.clone();
        std::thread::spawn(move || runtime().block_on(async move { limiter.take("api").await.map(drop) }))
    };
    drop(permit);
    assert_eq!(next(&granted), 1);
    task.join().unwrap().unwrap();
}

/// Blocking a thread of a runtime would hold up every task on it: an error instead, and nothing is taken.
#[test]
fn blocking_wait_inside_a_runtime_fails_and_takes_nothing() {
    let (limiter, _clock) = limiter("2 / minute");
    runtime().block_on(async {
        assert!(matches!(limiter.take("api").wait(), Err(TakeError::BlockingInAsync)));
        assert_eq!(used(&limiter), 0, "a store in process answers on the spot anywhere");
        assert!(limiter.try_take("api").now().unwrap().is_granted());
    });
}

#[test]
fn now_inside_a_runtime_on_a_remote_store_fails_and_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = on_file(folder.path());
    assert!(limiter.try_take("api").now().unwrap().is_granted());
    runtime().block_on(async {
        assert!(matches!(limiter.try_take("api").now(), Err(TakeError::BlockingInAsync)));
        assert!(matches!(limiter.take("api").wait(), Err(TakeError::BlockingInAsync)));
        assert!(matches!(limiter.usage("api").now(), Err(TakeError::BlockingInAsync)));
        assert!(matches!(limiter.reset("api").now(), Err(TakeError::BlockingInAsync)));
    });
    assert_eq!(used(&limiter), 1, "neither taken nor reset by a call that says it did nothing");
}

/// It has a runtime of its own by then, and one may not be waited for inside another.
#[test]
fn a_limiter_may_be_dropped_inside_a_runtime() {
    let (limiter, clock) = limiter("100 / second paced");
    drop(limiter.take("api").wait().unwrap());
    clock.advance(Span::from_secs(1));
    drop(limiter.take("api").wait().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let on_file = on_file(folder.path());
    drop(on_file.take("api").wait().unwrap());
    runtime().block_on(async move {
        assert!(!limiter.try_take("api").await.unwrap().is_granted());
        drop(on_file.take("api").await.unwrap());
        drop((limiter, on_file));
    });
}

/// A permit outlives the runtime and the thread that it comes from, and still frees its slot.
#[test]
fn a_permit_may_outlive_the_runtime_it_was_granted_on() {
    let (limiter, _clock) = limiter("1 concurrent");
    let permit = runtime().block_on(async { limiter.take("api").await.unwrap() });
    assert_eq!(used(&limiter), 1);
    std::thread::spawn(move || drop(permit)).join().unwrap();
    assert_eq!(used(&limiter), 0);
}

/// A1 on one machine: two limiters on one file, one used by tasks and one by threads, share one limit.
#[test]
fn two_limiters_on_one_file_share_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (on_file(folder.path()), on_file(folder.path()));
    assert!(one.try_take("api").now().unwrap().is_granted());
    drop(other.take("api").wait().unwrap());
    let runtime = runtime();
    runtime.block_on(async {
        assert!(one.try_take("api").await.unwrap().is_granted());
        let last = other.take("api").await.unwrap();
        assert!(!one.try_take("api").await.unwrap().is_granted());
        last.give_back().await.unwrap();
        assert!(one.try_take("api").await.unwrap().is_granted());
    });
    assert!(!other.try_take("api").now().unwrap().is_granted());
    assert_eq!((used(&one), used(&other)), (4, 4));
    drop((one, other));
    assert_eq!(used(&on_file(folder.path())), 4, "it is in the file, not in the process");
}
