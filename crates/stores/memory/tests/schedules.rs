//! The memory store under many thread schedules: no grant over the limit and no deadlock. T4.
//!
//! `cargo test -p tollway-memory --features shuttle --test schedules`; the store's locks are shuttle's then.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use std::sync::Arc;

use memory_support::{apply, charge, peek, policy, store_of, subject, take, take_all};
use shuttle::thread;
use tollway_core::{Action, Outcome, Policy, Settled, Span, Subject};
use tollway_memory::{MemoryStore, SHARDS};

/// The number of schedules per test.
const SCHEDULES: usize = 2_000;

/// Runs each part on its own thread, and returns the results.
fn together<T: Send + 'static>(parts: Vec<Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
    let threads: Vec<_> = parts.into_iter().map(thread::spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Runs the same part on `count` threads.
fn alike<T: Send + 'static>(count: usize, part: impl Fn() -> T + Send + Sync + 'static) -> Vec<T> {
    let part = Arc::new(part);
    let one = |_| {
        let part = part.clone();
        Box::new(move || part()) as Box<dyn FnOnce() -> T + Send>
    };
    together((0..count).map(one).collect())
}

fn takes(store: &MemoryStore, policy: &Policy, subject: &Subject, count: usize) -> usize {
    (0..count).filter(|_| take(store, policy, subject)).count()
}

fn assert_sound(store: &MemoryStore) {
    assert_eq!(store.stats().violations, 0);
}

/// In every possible schedule, two threads take the last unit and one gets it.
#[test]
fn one_unit_is_granted_once_in_all_schedules() {
    shuttle::check_dfs(
        || {
            let store = Arc::new(store_of(1).0);
            let policy = Arc::new(policy("api", "1 / minute"));
            let (shared, rule) = (store.clone(), policy.clone());
            let granted = alike(2, move || take(&shared, &rule, &Subject::SHARED));
            assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
            assert_eq!(peek(&store, &policy, &Subject::SHARED).used, 1);
        },
        None,
    );
}

#[test]
fn threads_on_one_account_are_granted_exactly_the_limit() {
    shuttle::check_random(
        || {
            let store = Arc::new(store_of(SHARDS).0);
            for limit in ["4 / minute", "4 / minute bucket", "4 concurrent", "4 / minute sliding"] {
                let policy = policy("api", limit);
                let shared = store.clone();
                let granted = alike(3, move || takes(&shared, &policy, &Subject::SHARED, 2));
                assert_eq!(granted.iter().sum::<usize>(), 4, "{limit}");
                store_is_reset(&store, limit);
            }
            assert_sound(&store);
        },
        SCHEDULES,
    );
}

fn store_is_reset(store: &MemoryStore, limit: &str) {
    let policy = policy("api", limit);
    assert_eq!(apply(store, &[charge(&policy, &Subject::SHARED)], Action::Reset), Outcome::Reset);
}

/// Settle, return and done while other threads take: returned units are granted again once.
#[test]
fn returned_units_and_slots_are_granted_once() {
    shuttle::check_random(
        || {
            let store = Arc::new(store_of(SHARDS).0);
            let policy = Arc::new(Policy::new("api", ["10 tokens / minute", "2 concurrent"]).unwrap());
            let held = Arc::new(shuttle::sync::atomic::AtomicUsize::new(0));
            let work = |ending: usize| {
                let (store, policy, held) = (store.clone(), policy.clone(), held.clone());
                Box::new(move || use_a_permit(&store, &policy, &held, ending))
                    as Box<dyn FnOnce() -> u64 + Send>
            };
            let spent: u64 = together((0..3).map(work).collect()).into_iter().sum();
            let Outcome::Peeked(charges) = apply(&store, &[charge(&policy, &Subject::SHARED)], Action::Peek)
            else {
                panic!("a peek is answered with readings")
            };
            assert_eq!((charges[0].readings[0].used, charges[0].readings[1].used), (spent, 0));
            assert_sound(&store);
        },
        SCHEDULES,
    );
}

/// Takes four tokens and a slot, then returns, settles or finishes. Returns how many tokens stay spent.
fn use_a_permit(
    store: &MemoryStore,
    policy: &Policy,
    held: &shuttle::sync::atomic::AtomicUsize,
    ending: usize,
) -> u64 {
    use shuttle::sync::atomic::Ordering::SeqCst;
    let cost = policy.cost([("tokens", 4)]).unwrap();
    let shared = Subject::SHARED;
    let charges = [charge(policy, &shared).with_cost(cost)];
    let Some(grant) = take_all(store, &charges) else { return 0 };
    assert!(held.fetch_add(1, SeqCst) < 2, "more than two hold a slot");
    held.fetch_sub(1, SeqCst);
    let booking = grant;
    match ending {
        0 => {
            let action = Action::Return { booking, remember: false };
            assert_eq!(apply(store, &charges, action), Outcome::Settled(Settled::Whole));
            0
        }
        1 => {
            let actual = [policy.cost([("tokens", 3)]).unwrap()].into();
            let action = Action::Settle { booking, actual, remember: true };
            assert_eq!(apply(store, &charges, action.clone()), Outcome::Settled(Settled::Whole));
            assert_eq!(apply(store, &charges, action), Outcome::Settled(Settled::Repeated));
            3
        }
        _ => {
            assert_eq!(apply(store, &charges, Action::Done(grant.permit)), Outcome::Done(true));
            4
        }
    }
}

/// I3, and no deadlock: three takes over pairs that cross.
#[test]
fn takes_over_crossing_pairs_are_all_or_nothing_without_deadlock() {
    shuttle::check_random(
        || {
            let store = Arc::new(store_of(SHARDS * 4).0);
            let policy = Arc::new(policy("api", "2 / minute"));
            let names = ["a", "b", "c"];
            let work = |turn: usize| {
                let (store, policy) = (store.clone(), policy.clone());
                let pair = [subject(names[turn]), subject(names[(turn + 1) % 3])];
                Box::new(move || {
                    let charges = [charge(&policy, &pair[0]), charge(&policy, &pair[1])];
                    (0..2).filter(|_| take_all(&store, &charges).is_some()).count()
                }) as Box<dyn FnOnce() -> usize + Send>
            };
            let granted: usize = together((0..3).map(work).collect()).into_iter().sum();
            let used = |name| peek(&store, &policy, &subject(name)).used as usize;
            assert_eq!(names.map(used).iter().sum::<usize>(), 2 * granted, "both or none of each pair");
            assert!(granted == 2 || granted == 3, "two each of three, in pairs: {granted}");
            assert_sound(&store);
        },
        SCHEDULES,
    );
}

/// T15: in a full store of 64 accounts, threads evict expired accounts and share live ones.
#[test]
fn eviction_and_sharing_never_grant_a_subject_more_than_its_limit() {
    shuttle::check_random(
        || {
            let (store, clock) = store_of(1);
            let store = Arc::new(store);
            let (short, long) =
                (Arc::new(policy("short", "1 / second")), Arc::new(policy("long", "2 / hour")));
            for number in 0..3 * SHARDS {
                take(&store, &short, &subject(&number.to_string()));
            }
            let first = subject("first");
            let before = usize::from(take(&store, &long, &first));
            let work = |thread: usize| {
                let (store, short, long, clock) = (store.clone(), short.clone(), long.clone(), clock.clone());
                let first = first.clone();
                Box::new(move || {
                    if thread == 0 {
                        clock.advance(Span::from_secs(5));
                        for number in 0..8 {
                            take(&store, &short, &subject(&format!("new-{number}")));
                        }
                        return 0;
                    }
                    takes(&store, &long, &first, 2)
                }) as Box<dyn FnOnce() -> usize + Send>
            };
            let granted: usize = together((0..3).map(work).collect()).into_iter().sum();
            assert_eq!(before + granted, 2, "two an hour, on its own or a shared account");
            assert_sound(&store);
        },
        SCHEDULES / 4,
    );
}
