//! Tests of shared accounts and kept denials.

use std::cell::Cell;

use tollway_core::{FastDecision, PermitId, Span, Terms};
use tollway_testkit::ManualClock;

use super::*;

/// I1: making room for one subject of a take must not overwrite a shared account that another subject uses. It once
/// did, and granted five of three.
#[test]
fn take_over_two_subjects_keeps_the_shared_accounts_of_others() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
    let store = MemoryStore::with_capacity(3 * SHARDS, clock.clone());
    let policy = Policy::new("api", ["3 / minute from first call"]).unwrap();
    let hash = |name: &str| entries::hash(&store.hasher, policy.key(), name);
    let slot = |name: &str| (hash(name) >> 40) % 16;
    let names: Vec<String> =
        (0..200_000).map(|n| format!("s{n}")).filter(|name| shard_of(hash(name)) == 7).collect();
    let (second, rest) = names.split_first().unwrap();
    let sharing = rest.iter().find(|name| slot(name) == slot(second)).unwrap();
    let others: Vec<&String> = rest.iter().filter(|name| slot(name) != slot(second)).collect();

    let permits = Cell::new(0u128);
    let policy = Arc::new(policy.clone());
    let take = |names: &[&str]| {
        permits.set(permits.get() + 1);
        let charge = |name: &&str| Charge::new(Arc::clone(&policy), Subject::new(name).unwrap());
        let action = Action::Take(Terms::now(PermitId(permits.get())));
        let operation = Operation { charges: names.iter().map(charge).collect(), action };
        let Answer::Now(Some(Ok(outcomes))) = store.apply(&[operation]) else { panic!("memory answers") };
        matches!(&outcomes[0], Outcome::Decided(decision) if decision.is_granted())
    };

    assert!(take(&[others[0]]) && take(&[others[1]]));
    clock.advance(Span::from_secs(5));
    assert!(take(&[second]));
    clock.advance(Span::from_secs(45));
    let before = (0..5).filter(|_| take(&[sharing])).count();
    clock.advance(Span::from_millis(10_500));
    assert!(take(&[others[2]]));
    clock.advance(Span::from_millis(9_500));
    take(&[others[3], second]);
    let after = (0..5).filter(|_| take(&[sharing])).count();
    assert_eq!((before, after), (3, 0), "20 seconds of one minute");
}

/// I4: a kept denial is repeated until its cost fits, not longer, and not once an operation gave units back.
#[test]
fn kept_denial_ends_with_a_refund_and_with_its_time() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
    let store = MemoryStore::with_capacity(64, clock.clone());
    let policy = Arc::new(Policy::new("api", ["1 / second from first call"]).unwrap());
    let denial = KeptDenial::default();
    let granted = |subject: &str| {
        let decided = store.decide_fast_kept(&policy, subject, &denial).unwrap();
        matches!(decided, FastDecision::Granted { .. })
    };
    let reset = || {
        let charge = Charge::new(Arc::clone(&policy), Subject::new("ann").unwrap());
        let Answer::Now(Some(Ok(_))) = store.apply(&[Operation::one(charge, Action::Reset)]) else {
            panic!("memory answers")
        };
    };
    assert_eq!([granted("ann"), granted("ann"), granted("ann"), granted("ann")], [true, false, false, false]);
    assert!(granted("bob"), "another subject");
    reset();
    assert_eq!([granted("ann"), granted("ann"), granted("ann")], [true, false, false], "after a reset");
    clock.advance(Span::from_millis(999));
    assert!(!granted("ann"));
    clock.advance(Span::from_millis(1));
    assert!(granted("ann"), "at retry_at");
}
