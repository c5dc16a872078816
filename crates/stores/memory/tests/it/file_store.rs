//! The file store: one limit for all processes and all times that open the file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};

use crate::file_support::{
    HandClock, NOON, charges, open, place, policy, subject, take, take_of, used, wait,
};
use tollway_core::{
    Action, Begun, Fault, Operation, Outcome, PermitId, Policy, Retry, Span, Store, Subject, Terms,
};
use tollway_memory::{FILE_ACCOUNTS_MAX, FILE_QUEUE_MAX, FileStore};

#[test]
fn two_stores_on_one_path_share_a_limit_exactly() {
    let (_directory, path) = place();
    let (one, other) = (open(&path), open(&path));
    let policy = policy("10 requests / day");
    let granted = (0..20).filter(|n| take(if n % 2 == 0 { &one } else { &other }, &policy, &Subject::SHARED));
    assert_eq!(granted.count(), 10);
    assert_eq!(used(&one, &policy, &Subject::SHARED), 10);
    assert_eq!(used(&other, &policy, &Subject::SHARED), 10);
}

#[test]
fn a_limit_survives_reopening() {
    let (_directory, path) = place();
    let policy = policy("3 requests / day");
    let granted = (0..9).filter(|_| take(&open(&path), &policy, &subject("team-a")));
    assert_eq!(granted.count(), 3);
}

#[test]
fn many_threads_and_stores_are_granted_exactly_the_limit() {
    let (_directory, path) = place();
    let stores: Vec<FileStore> = (0..4).map(|_| open(&path)).collect();
    assert_eq!(granted_of_1600(&stores, &policy("500 requests / day")), 500);
}

/// How many of 1,600 takes are granted that 16 threads try at the same time.
fn granted_of_1600(stores: &[FileStore], policy: &Policy) -> usize {
    let takes = |store: &FileStore| (0..100).filter(|_| take(store, policy, &Subject::SHARED)).count();
    std::thread::scope(|scope| {
        let threads = stores.iter().cycle().take(16);
        let threads: Vec<_> = threads.map(|store| scope.spawn(|| takes(store))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[cfg(unix)]
#[test]
fn link_and_its_target_are_one_store() {
    let (directory, path) = place();
    let policy = policy("1 requests / day");
    assert!(take(&open(&path), &policy, &Subject::SHARED));
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(!take(&open(&link), &policy, &Subject::SHARED));
}

/// Another user's link does not choose the file that is locked.
#[cfg(unix)]
#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let (directory, path) = place();
    let target = directory.path().join("target");
    std::os::unix::fs::symlink(&target, directory.path().join("limits.lock")).unwrap();
    let refused = FileStore::open(&path, HandClock::at_noon()).unwrap_err();
    assert!(refused.to_string().contains("it is a symbolic link"), "{refused}");
    assert!(!target.exists());
}

#[test]
fn removed_lock_file_does_not_break_the_lock() {
    let (directory, path) = place();
    let one = open(&path);
    fs::remove_file(directory.path().join("limits.lock")).unwrap();
    let other = open(&path);
    assert_eq!(granted_of_1600(&[one, other], &policy("1500 requests / day")), 1_500);
}

#[test]
fn dropping_the_store_finishes_accepted_commands() {
    let (directory, path) = place();
    let policy = policy("50 requests / day");
    let store = open(&path);
    let lock = File::open(directory.path().join("limits.lock")).unwrap();
    lock.lock().unwrap();
    for _ in 0..20 {
        // Drops the answers.
        drop(store.apply(&[take_of(charges(&[&policy], &Subject::SHARED))]));
    }
    lock.unlock().unwrap();
    drop(store);
    assert_eq!(used(&open(&path), &policy, &Subject::SHARED), 20);
}

#[test]
fn full_queue_is_an_error_and_accepted_commands_are_answered() {
    let (directory, path) = place();
    let policy = policy("100k requests / day");
    let store = open(&path);
    let lock = File::open(directory.path().join("limits.lock")).unwrap();
    lock.lock().unwrap();
    let shared = Subject::SHARED;
    let charges = charges(&[&policy], &shared);
    let answers: Vec<_> = (0..2 * FILE_QUEUE_MAX).map(|_| store.apply(&[take_of(charges.clone())])).collect();
    lock.unlock().unwrap();
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().map(wait).partition(Result::is_ok);
    assert!(taken.len() >= FILE_QUEUE_MAX && !refused.is_empty());
    for error in refused.into_iter().filter_map(Result::err) {
        assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Safe));
    }
    assert_eq!(used(&store, &policy, &Subject::SHARED), u64::try_from(taken.len()).unwrap());
}

#[test]
fn full_file_refuses_new_subjects_until_others_expire() {
    let (_directory, path) = place();
    let clock = HandClock::at_noon();
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let policy = policy("2 requests / minute");
    let subjects: Vec<Subject> = (0..FILE_ACCOUNTS_MAX).map(|n| subject(&n.to_string())).collect();
    for some in subjects.chunks(1_000) {
        let charges: Vec<_> = some.iter().map(|subject| charges(&[&policy], subject)).collect();
        let batch: Vec<_> = charges.iter().map(|charges| take_of(charges.clone())).collect();
        wait(store.apply(&batch)).unwrap();
    }
    let late = subject("late");
    let late = charges(&[&policy], &late);
    let error = wait(store.apply(&[take_of(late.clone())])).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Account, Retry::Useless));
    assert!(error.message.contains("100000 subjects"), "{error}");
    assert!(take(&store, &policy, &subjects[7]), "subjects with an account still work");

    clock.set(NOON.plus(Span::from_mins(1)));
    wait(store.apply(&[take_of(late.clone())])).unwrap();
    let other = FileStore::open(&path, clock).unwrap();
    assert_eq!(used(&other, &policy, &late[0].subject), 1, "other processes read the deletions");
}

/// T7: counted from the account's time, which stands still, every denial would say one minute.
#[test]
fn waits_count_down_after_the_clock_was_set_back() {
    let (_directory, path) = place();
    let clock = HandClock::at_noon();
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let policy = policy("1 requests / minute");
    assert!(take(&store, &policy, &Subject::SHARED));
    let due = NOON.plus(Span::from_mins(1));
    for minutes in [60, 59, 1, 0] {
        let now = NOON.minus(Span::from_mins(minutes));
        clock.set(now);
        let charges = charges(&[&policy], &Subject::SHARED);
        let preview =
            Operation { charges: charges.clone(), action: Action::Preview(Terms::now(PermitId(2))) };
        for outcome in wait(store.apply(&[take_of(charges), preview])).unwrap() {
            let Outcome::Decided(denied) = outcome else { panic!("not a decision: {outcome:?}") };
            assert_eq!(denied.denial().unwrap().retry_at, due);
            assert_eq!(denied.wait(), due.since(now), "{minutes} minutes before the take");
        }
    }
    clock.set(due);
    assert!(take(&store, &policy, &Subject::SHARED), "when the wait is over");
}

/// T7: the same for a booked permit that begins too early.
#[test]
fn wait_for_a_booking_counts_down_after_the_clock_was_set_back() {
    let (_directory, path) = place();
    let clock = HandClock::at_noon();
    let store = FileStore::open(&path, clock.clone()).unwrap();
    let policy = policy("1 requests / minute");
    let charges = charges(&[&policy], &Subject::SHARED);
    assert!(take(&store, &policy, &Subject::SHARED));
    let terms = Terms { max_wait: Span::from_mins(2), ..Terms::now(PermitId(2)) };
    let book = Operation { charges: charges.clone(), action: Action::Take(terms.clone()) };
    let Outcome::Decided(booked) = wait(store.apply(&[book])).unwrap().remove(0) else {
        panic!("a take is decided")
    };
    let begin = Operation { charges, action: Action::Begin(*booked.booking().unwrap(), terms) };
    let due = NOON.plus(Span::from_mins(1));
    for minutes in [60, 59, 1, 0] {
        let now = NOON.minus(Span::from_mins(minutes));
        clock.set(now);
        let begun = wait(store.apply(std::slice::from_ref(&begin))).unwrap().remove(0);
        assert_eq!(begun, Outcome::Begun(Begun::Early(due.since(now))), "{minutes} minutes before the take");
    }
    clock.set(due);
    assert_eq!(wait(store.apply(&[begin])).unwrap().remove(0), Outcome::Begun(Begun::Now));
}

#[test]
fn accounts_are_listed() {
    let (_directory, path) = place();
    let store = open(&path);
    tollway_testkit::account_list::are_listed(&store);
    assert_eq!(
        tollway_testkit::account_list::list(&open(&path), Some("a"), 10).0.len(),
        3,
        "by another process"
    );
}
