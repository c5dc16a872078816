//! Threads on one memory store are granted exactly the limit: T3, M2, G3.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Barrier;

use crate::memory_support::{apply, charge, peek, policy, store_of, subject, take, take_all};
use tollway_core::{Action, Policy, Settled, Subject};
use tollway_memory::MemoryStore;

const THREADS: usize = 8;

/// Runs `work` on all threads at the same time, and returns the sum of the results.
fn on_threads(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let start = |thread| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn takes(store: &MemoryStore, policy: &Policy, subject: &Subject, count: usize) -> u64 {
    (0..count).filter(|_| take(store, policy, subject)).count() as u64
}

/// M2: limitador reads, compares, then adds, and exceeded the limit in 79 of 2,000 such rounds.
#[test]
fn m2_two_thousand_rounds_of_limit_100_are_0_over_and_0_under() {
    let (store, _clock) = store_of(100_000);
    let (mut over, mut under) = (0, 0);
    for round in 0..2_000 {
        let policy = policy(&format!("round-{round}"), "100 / hour");
        let granted = on_threads(|_| takes(&store, &policy, &Subject::SHARED, 16));
        over += u64::from(granted > 100);
        under += u64::from(granted < 100);
    }
    assert_eq!((over, under), (0, 0));
    assert_eq!(store.stats().violations, 0);
}

/// G3: no double spending, whatever the algorithm.
#[test]
fn one_subject_is_granted_exactly_the_limit() {
    let (store, _clock) = store_of(1_000);
    for (name, limit, exactly) in [
        ("window", "1000 / hour", 1_000),
        ("first-call", "1000 / hour from first call", 1_000),
        ("sliding", "1000 / hour sliding", 1_000),
        ("bucket", "1000 / hour bucket", 1_000),
        ("burst", "7 / hour bucket burst 1000", 1_000),
        ("paced", "3 / second paced", 1),
        ("slots", "1000 concurrent", 1_000),
    ] {
        let policy = policy(name, limit);
        assert_eq!(on_threads(|_| takes(&store, &policy, &Subject::SHARED, 400)), exactly, "{limit}");
        assert_eq!(peek(&store, &policy, &Subject::SHARED).used, exactly, "{limit}");
    }
}

#[test]
fn each_of_a_hundred_subjects_is_granted_exactly_the_limit() {
    let (store, _clock) = store_of(1_000);
    let policy = policy("adobe", "50 / hour");
    let subjects: Vec<Subject> = (0..100).map(|n| subject(&format!("team-{n}"))).collect();
    // Each thread starts with another subject, so that threads meet on existing and on new accounts.
    let granted = on_threads(|thread| {
        let around = subjects.iter().cycle().skip(thread * 13).take(100 * subjects.len());
        around.filter(|subject| take(&store, &policy, subject)).count() as u64
    });
    assert_eq!(granted, 50 * 100);
    for subject in &subjects {
        assert_eq!(peek(&store, &policy, subject).used, 50, "{subject}");
    }
    assert_eq!(store.stats().accounts, 100);
}

/// I3, and no deadlock: half of the threads name the pair in the opposite order.
#[test]
fn takes_over_crossing_pairs_are_all_or_nothing_without_deadlock() {
    let (store, _clock) = store_of(1_000);
    let (one, other) = (policy("one", "3000 / hour"), policy("other", "2000 / hour"));
    let subjects: Vec<Subject> = (0..10).map(|n| subject(&n.to_string())).collect();
    let granted = on_threads(|thread| {
        let takes = (0..4_000usize).filter(|n| {
            let (left, right) = (&subjects[n % 10], &subjects[(n / 10 + thread) % 10]);
            let pair = [charge(&one, left), charge(&other, right)];
            let turned = [pair[1].clone(), pair[0].clone()];
            take_all(&store, if thread % 2 == 0 { &pair } else { &turned }).is_some()
        });
        takes.count() as u64
    });
    let used = |policy: &Policy| subjects.iter().map(|subject| peek(&store, policy, subject).used).sum();
    let (of_one, of_other): (u64, u64) = (used(&one), used(&other));
    assert_eq!((of_one, of_other), (granted, granted), "each grant took from both, each denial from none");
    assert_eq!(granted, 10 * 2_000);
    assert_eq!(store.stats().violations, 0);
}

/// Units and slots returned while other threads take are granted again once: never more than the limit at a time.
#[test]
fn units_and_slots_returned_during_takes_are_counted_once() {
    let (store, _clock) = store_of(1_000);
    let (slots, window) = (policy("slots", "5 concurrent"), policy("window", "40 / hour"));
    let shared = Subject::SHARED;
    let charges = [charge(&slots, &shared), charge(&window, &shared)];
    let held = std::sync::atomic::AtomicU64::new(0);
    on_threads(|_| {
        for _ in 0..3_000 {
            let Some(grant) = take_all(&store, &charges) else { continue };
            let now = held.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert!(now < 5, "{now} others hold a slot of five");
            held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            let back = Action::Return { booking: grant, remember: false };
            assert_eq!(apply(&store, &charges, back), tollway_core::Outcome::Settled(Settled::Whole));
        }
        0
    });
    assert_eq!(peek(&store, &slots, &Subject::SHARED).used, 0);
    assert_eq!(peek(&store, &window, &Subject::SHARED).used, 0, "nothing was lost or returned twice");
}
