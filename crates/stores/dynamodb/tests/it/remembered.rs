//! What may be answered from a state that is only remembered, and what may not: the rules of the crate's documentation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "how often it may read depends on how long it really took")]

use crate::support;
use std::sync::Arc;
use std::time::Instant;

use crate::support::{
    count, fresh_permit, fresh_table, policy, server, store, subject, take, try_take, url, used,
};
use tollway_core::{Action, Booking, CallId, Charge, Operation, Outcome, Policy, Store, Terms};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::wait_for;

fn exact(table: &str) -> DynamoStore {
    DynamoStore::connect(&format!("{}&denials=0s", url(table))).unwrap()
}

fn apply(store: &DynamoStore, policy: &Policy, action: Action) -> Outcome {
    let charge = Charge::new(Arc::new(policy.clone()), subject("s"));
    wait_for(store.apply(&[Operation::one(charge, action)])).unwrap().remove(0)
}

fn give_back(store: &DynamoStore, policy: &Policy, booking: Booking) {
    apply(store, policy, Action::Return { booking, remember: false });
}

#[test]
fn the_steady_state_reads_nothing() {
    let store = store(&fresh_table());
    let policy = policy("100 requests / day");
    (0..20).for_each(|_| assert!(try_take(&store, &policy, &subject("s"))));
    assert_eq!((count(&store.counters().reads), count(&store.counters().writes)), (1, 20));
    assert_eq!(count(&store.counters().conditional_failures), 0);
    let latencies = store.counters().write_latency.read().counts.iter().sum::<u64>();
    assert_eq!(latencies, 20, "each write is in the histogram");
}

#[test]
fn denials_read_at_most_once_a_second_and_write_nothing() {
    let store = store(&fresh_table());
    let policy = policy("1 request / day");
    assert!(try_take(&store, &policy, &subject("s")));
    let begun = Instant::now();
    (0..50).for_each(|_| assert!(!try_take(&store, &policy, &subject("s"))));
    let reads = count(&store.counters().reads) - 1;
    assert!(reads <= begun.elapsed().as_secs() + 1, "{reads} in {:?}", begun.elapsed());
    assert_eq!(count(&store.counters().writes), 1);
}

#[test]
fn denials_of_an_exact_store_are_read_each() {
    let store = exact(&fresh_table());
    let policy = policy("1 request / day");
    assert!(try_take(&store, &policy, &subject("s")));
    (0..50).for_each(|_| assert!(!try_take(&store, &policy, &subject("s"))));
    assert_eq!((count(&store.counters().reads), count(&store.counters().writes)), (51, 1));
}

/// G3: the condition of the write finds it out, and the reply says what is so.
#[test]
fn g3_a_grant_from_stale_state_is_decided_again() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("3 requests / day");
    assert!(try_take(&one, &policy, &subject("s")));
    assert!(try_take(&other, &policy, &subject("s")));
    assert!(try_take(&one, &policy, &subject("s")));
    let counters = one.counters();
    assert_eq!((count(&counters.conditional_failures), count(&counters.retries)), (1, 1));
    assert_eq!(count(&counters.reads), 1, "the reply to the lost race carried the state");
    assert!(!try_take(&other, &policy, &subject("s")), "it still thinks that one is left, and finds out");
    assert_eq!(used(&one, &policy, &subject("s")), 3);
}

#[test]
fn a_refund_and_a_reset_of_another_process_are_seen() {
    let table = fresh_table();
    let (one, other) = (exact(&table), exact(&table));
    let policy = policy("1 request / day");
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&other, &policy, &subject("s")));
    give_back(&one, &policy, booking);
    assert!(try_take(&other, &policy, &subject("s")));
    assert!(!try_take(&one, &policy, &subject("s")));
    apply(&other, &policy, Action::Reset);
    assert!(try_take(&one, &policy, &subject("s")));
}

#[test]
fn peeks_and_previews_are_never_cached() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("1 request / day");
    assert_eq!(used(&other, &policy, &subject("s")), 0);
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert_eq!(used(&other, &policy, &subject("s")), 1);
    give_back(&one, &policy, booking);
    let preview = apply(&other, &policy, Action::Preview(Terms::now(fresh_permit())));
    assert!(matches!(&preview, Outcome::Decided(decision) if decision.is_granted()), "{preview:?}");
}

/// What is remembered denies; elsewhere the same call was granted meanwhile.
#[test]
fn an_id_is_looked_up_before_it_is_denied() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("1 request / day");
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&other, &policy, &subject("s")));
    give_back(&one, &policy, booking);
    let call = CallId::new("invoice-7").unwrap();
    let terms = || Terms { call: Some(call.clone()), ..Terms::now(fresh_permit()) };
    let first = apply(&one, &policy, Action::Take(terms()));
    assert!(
        matches!(&first, Outcome::Decided(decision) if decision.is_granted() && !decision.repeated),
        "{first:?}"
    );
    let second = apply(&other, &policy, Action::Take(terms()));
    assert!(
        matches!(&second, Outcome::Decided(decision) if decision.is_granted() && decision.repeated),
        "{second:?}"
    );
}

/// A slot that another process has freed is not held, whatever this one remembers.
#[test]
fn slots_are_looked_up() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("1 concurrent");
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert_eq!(apply(&other, &policy, Action::Renew(booking.permit)), Outcome::Renewed(true));
    assert_eq!(apply(&one, &policy, Action::Done(booking.permit)), Outcome::Done(true));
    assert_eq!(apply(&other, &policy, Action::Renew(booking.permit)), Outcome::Renewed(false));
    assert_eq!(apply(&other, &policy, Action::Done(booking.permit)), Outcome::Done(false));
}

/// A deleted item is a new account, and no version of the old one is taken for the new one's.
#[test]
fn a_deleted_item_is_created_again() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("9 requests / day");
    (0..3).for_each(|_| assert!(try_take(&one, &policy, &subject("s"))));
    let before = support::number(&server().only_item(&table), "version");
    server().delete_all(&table);
    (0..3).for_each(|_| assert!(try_take(&other, &policy, &subject("s"))));
    assert!(support::number(&server().only_item(&table), "version") > before);
    assert!(try_take(&one, &policy, &subject("s")), "it remembers an item that is gone");
    assert_eq!(used(&one, &policy, &subject("s")), 4);
    server().delete_all(&table);
    assert!(try_take(&one, &policy, &subject("s")), "it remembers an item, and there is none");
    assert_eq!(used(&other, &policy, &subject("s")), 1);
}
