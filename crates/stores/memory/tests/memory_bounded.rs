//! Memory is bounded, and a flood of subjects does not reset a denied one: T15, M10.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/memory_support.rs"]
mod memory_support;

use memory_support::{START, charge, peek, policy, resident, store_of, stranger, subject, take};
use tollway_core::{Action, Operation, PermitId, Policy, Span, Store, Subject, Terms};
use tollway_memory::{MemoryStore, OVERFLOW_ACCOUNTS, SHARDS};
use tollway_testkit::{ManualClock, wait_for};

/// The most bytes of an account, as documented at the store.
const BYTES_PER_ACCOUNT: u64 = 200;

/// Ten million subjects on a million accounts.
const ACCOUNTS: usize = 1_000_000;
const SUBJECTS: usize = 10 * ACCOUNTS;

/// T15, M10: LRU eviction would delete the victim's account; a store without a bound would grow without end.
#[test]
fn m10_a_flood_of_subjects_neither_grows_memory_nor_resets_a_denied_one() {
    let (store, clock) = store_of(ACCOUNTS);
    let policy = policy("api", "1 / hour");
    let victim = subject("victim");
    assert!(take(&store, &policy, &victim));
    let before = resident();
    let mut peak = before;
    let mut served = 0;
    for number in 0..SUBJECTS {
        served += usize::from(take(&store, &policy, &stranger(number)));
        clock.advance(Span::from_micros(100));
        if number % 1_000 == 0 {
            assert!(!take(&store, &policy, &victim), "the victim was reset by subject {number}");
            peak = peak.max(resident());
        }
    }
    let stats = store.stats();
    assert_eq!(stats.violations, 0);
    assert!(stats.accounts <= stats.capacity && stats.accounts > ACCOUNTS * 9 / 10, "{stats:?}");
    assert_eq!(stats.overflow_accounts, OVERFLOW_ACCOUNTS, "the policy's shared accounts, and no more");
    assert!(stats.overflowed as usize > SUBJECTS / 2, "{stats:?}");
    assert_eq!(
        served,
        stats.accounts - 1 + OVERFLOW_ACCOUNTS,
        "each account, own or shared, granted its one request"
    );

    let bound = (stats.capacity + OVERFLOW_ACCOUNTS) as u64 * BYTES_PER_ACCOUNT;
    let grown = peak - before;
    assert!(grown < bound, "{} bytes an account: {grown} for {stats:?}", grown / stats.accounts as u64);

    expired_accounts_make_room(&store, &clock, &policy, &victim);
    let left = resident().saturating_sub(before);
    assert!(left < grown / 3 * 2, "{left} of {grown} bytes are still used by {:?}", store.stats());
}

/// Once all accounts have expired, new subjects find room, and each of them sweeps a few buckets.
fn expired_accounts_make_room(store: &MemoryStore, clock: &ManualClock, policy: &Policy, victim: &Subject) {
    clock.set(START.plus(Span::from_hours(1)));
    assert!(take(store, policy, victim), "its hour is over");
    let passing = Policy::new("passing", ["1 / second"]).unwrap();
    // Each new account sweeps four buckets: so many takes sweep every bucket twice.
    for number in 0..2 * ACCOUNTS {
        assert!(take(store, &passing, &stranger(number)), "there is room again");
        clock.advance(Span::from_micros(500));
    }
    let stats = store.stats();
    assert!(stats.accounts < ACCOUNTS / 4, "{stats:?}");
    assert!(!take(store, policy, victim), "it has had its request of this hour");
}

/// Fills the store with accounts that expire in a second; later subjects have to share.
fn fill(store: &MemoryStore) {
    let fillers = policy("fillers", "1 / second");
    for number in 0.. {
        let stats = store.stats();
        if stats.accounts == stats.capacity {
            return;
        }
        take(store, &fillers, &stranger(number));
    }
}

#[test]
fn a_new_subject_is_served_when_the_store_is_full_of_live_ones() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let before = store.stats();
    let policy = policy("api", "2 / minute");
    assert!(take(&store, &policy, &subject("new")));
    assert!(take(&store, &policy, &subject("new")));
    assert!(!take(&store, &policy, &subject("new")), "the same limit applies");
    let after = store.stats();
    assert_eq!((after.accounts, after.overflow_accounts), (before.accounts, before.overflow_accounts + 1));
    assert_eq!(after.overflowed, before.overflowed + 3);
}

/// With an own account as soon as there is room, the subject would be granted its limit twice.
#[test]
fn subject_stays_on_its_shared_account_until_that_expires() {
    let (store, clock) = store_of(SHARDS);
    fill(&store);
    let (policy, late) = (policy("api", "3 / minute"), subject("late"));
    assert!(take(&store, &policy, &late));
    clock.advance(Span::from_secs(10));
    // The fillers have expired: there is room for all of these.
    for number in 0..10 * SHARDS {
        take(&store, &policy, &stranger(number));
    }
    let granted = (0..5).filter(|_| take(&store, &policy, &late)).count();
    assert!(granted <= 2, "{} of 3 in one minute", granted + 1);
    assert!(peek(&store, &policy, &late).used == 3);

    clock.set(START.plus(Span::from_mins(1)));
    let granted = (0..5).filter(|_| take(&store, &policy, &late)).count();
    assert_eq!(granted, 3, "a new minute, an account of its own");
}

/// I1: subjects on one shared account share its limit.
#[test]
fn subjects_on_a_shared_account_share_one_limit() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let of_fillers = store.stats().overflow_accounts;
    let policy = policy("api", "3 / minute");
    let granted = (0..20_000).filter(|number| take(&store, &policy, &stranger(*number))).count();
    assert_eq!(store.stats().overflow_accounts - of_fillers, OVERFLOW_ACCOUNTS);
    assert_eq!(granted, 3 * OVERFLOW_ACCOUNTS);
    assert_eq!(store.stats().violations, 0);
}

/// I1, I3: one operation cannot debit an account twice, so a take over two subjects that share one is refused.
#[test]
fn take_over_two_subjects_on_one_shared_account_is_refused() {
    let (store, _clock) = store_of(SHARDS);
    fill(&store);
    let policy = policy("api", "10 / minute");
    let one = subject("one");
    assert!(take(&store, &policy, &one));
    let shares = |other: &Subject| peek(&store, &policy, other).used == 1;
    let other = (0..).map(stranger).find(shares).unwrap();
    let terms = Terms::now(PermitId(1));
    let charges = [charge(&policy, &one), charge(&policy, &other)];
    let error = wait_for(
        store.apply(&[Operation { charges: charges.into_iter().collect(), action: Action::Take(terms) }]),
    )
    .unwrap_err();
    assert!(error.message.contains("share an account"), "{error}");
    assert_eq!(peek(&store, &policy, &one).used, 1);
}
