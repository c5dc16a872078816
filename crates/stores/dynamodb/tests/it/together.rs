//! Takes over several accounts: one transaction, all or nothing, with concurrent writers (G1, I3).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::{count, fresh_table, store, subject, take, try_take, used};
use tollway_core::{Action, Charge, Operation, Outcome, Policy, Store, Subject, Terms};
use tollway_testkit::wait_for;

#[test]
fn a_denial_by_one_account_leaves_the_others_unchanged() {
    let store = store(&fresh_table());
    let (wide, narrow) = (Policy::new("a", ["9 / day"]).unwrap(), Policy::new("b", ["1 / day"]).unwrap());
    assert!(take(&store, &[&wide, &narrow], &subject("s")).unwrap().is_some());
    assert!(take(&store, &[&narrow, &wide], &subject("s")).unwrap().is_none());
    assert_eq!((used(&store, &wide, &subject("s")), used(&store, &narrow, &subject("s"))), (1, 1));
    assert_eq!(count(&store.counters().writes), 1);
}

/// One process caches an account that another has changed: the transaction detects it.
#[test]
fn a_conflict_on_one_account_cancels_the_whole_write() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let (a, b) = (Policy::new("a", ["9 / day"]).unwrap(), Policy::new("b", ["2 / day"]).unwrap());
    assert!(take(&one, &[&a, &b], &subject("s")).unwrap().is_some());
    assert!(try_take(&other, &b, &subject("s")));
    assert!(take(&one, &[&a, &b], &subject("s")).unwrap().is_none());
    assert_eq!(count(&one.counters().conditional_failures), 1);
    assert_eq!((used(&one, &a, &subject("s")), used(&one, &b, &subject("s"))), (1, 2));
}

/// Each user has an account, and all share one whose key comes last: calls of different tags, on one account.
#[test]
fn callers_of_one_process_on_one_account_do_not_conflict() {
    let store = store(&fresh_table());
    let policy = |name: &str, limit| Arc::new(Policy::new(name, [limit]).unwrap());
    let (own, all) = (policy("a", "9 / day"), policy("z", "100 / day"));
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        for user in 0..24 {
            let (store, own, all, granted) = (&store, &own, &all, &granted);
            scope.spawn(move || {
                let user = subject(&format!("user-{user}"));
                for _ in 0..5 {
                    let own = Charge::new(Arc::clone(own), user.clone());
                    let charges = [own, Charge::new(Arc::clone(all), Subject::SHARED)].into_iter().collect();
                    let action = Action::Take(Terms::now(support::fresh_permit()));
                    let outcome = wait_for(store.apply(&[Operation { charges, action }])).unwrap().remove(0);
                    let taken = matches!(outcome, Outcome::Decided(decision) if decision.is_granted());
                    granted.fetch_add(u64::from(taken), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(granted.into_inner(), 100, "of 120");
    assert_eq!(count(&store.counters().conditional_failures), 0);
    assert_eq!(used(&store, &all, &Subject::SHARED), 100);
}

#[test]
fn crossing_takes_of_several_processes_are_exact() {
    let table = fresh_table();
    let stores = [(); 4].map(|()| store(&table));
    let policies: Vec<Policy> =
        (0..6).map(|number| Policy::new(&format!("p{number}"), ["60 / day"]).unwrap()).collect();
    let forwards: Vec<&Policy> = policies.iter().collect();
    let backwards: Vec<&Policy> = policies.iter().rev().collect();
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        for store in &stores {
            for named in [&forwards, &backwards] {
                let granted = &granted;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let taken = take(store, named, &subject("s")).unwrap().is_some();
                        granted.fetch_add(u64::from(taken), Ordering::SeqCst);
                    }
                });
            }
        }
    });
    assert_eq!(granted.into_inner(), 60, "of 80");
    assert!(policies.iter().all(|policy| used(&stores[0], policy, &subject("s")) == 60));
}
