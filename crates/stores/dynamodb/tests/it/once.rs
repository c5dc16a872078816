//! A call counts once, however often it is sent and wherever its answer was lost (G9).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::{
    fresh_table, policy, server, store, subject, take_operation, try_take, url_through, used,
};
use tollway_core::{Operation, Outcome, Outcomes, Policy, Retry, StoreError};
use tollway_dynamodb::{DynamoLink, DynamoStore};
use tollway_remote::{Call, Link, Tag};
use tollway_testkit::faults::{AwsFront, Fault, FaultProxy, Treatment};

fn call(sequence: u64, operations: Vec<Operation>) -> Arc<Call> {
    let tag = Tag::of(&operations[0]).unwrap();
    Arc::new(Call { tag, sequence, again: false, operations: operations.into() })
}

fn again(call: &Arc<Call>) -> Arc<Call> {
    Arc::new(Call { again: true, ..(**call).clone() })
}

fn link(front: &AwsFront, table: &str) -> Arc<DynamoLink> {
    Arc::new(DynamoLink::new(url_through(front.addr(), table).parse().unwrap()))
}

async fn send(link: &Arc<DynamoLink>, call: &Arc<Call>) -> Result<Outcomes, StoreError> {
    Arc::clone(link).send(vec![Arc::clone(call)]).await.remove(0)
}

fn grants(outcomes: &Outcomes) -> usize {
    let granted = |outcome: &&Outcome| matches!(outcome, Outcome::Decided(decision) if decision.is_granted());
    outcomes.iter().filter(granted).count()
}

fn takes(policy: &Policy, count: usize) -> Vec<Operation> {
    (0..count).map(|_| take_operation(&[policy], &subject("s"))).collect()
}

/// On a thread of its own: the store is called from outside any runtime.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(ask).await.unwrap()
}

/// G9: the caller only learns that it was granted.
#[test]
fn g9_a_take_counts_once_under_every_write_fault() {
    let front = AwsFront::to(server().addr());
    let table = fresh_table();
    let store = DynamoStore::connect(&url_through(front.addr(), &table)).unwrap();
    let (one, two) = (policy("1000 requests / day"), Policy::new("q", ["1000 requests / day"]).unwrap());
    let said = [
        Treatment::Lost,
        Treatment::FailedAfterwards,
        Treatment::Unavailable,
        Treatment::Throttled,
        Treatment::Conflict,
    ];
    for (round, said) in (1..).zip(said) {
        front.next(2, "PutItem", said);
        assert!(try_take(&store, &one, &subject("s")), "{said:?}");
        front.next(2, "TransactWriteItems", said);
        assert!(support::take(&store, &[&one, &two], &subject("s")).unwrap().is_some(), "{said:?}");
        assert_eq!(used(&store, &one, &subject("s")), 2 * round, "{said:?}");
        assert_eq!(used(&store, &two, &subject("s")), round, "{said:?}");
    }
}

/// A request that a network kept back arrives long after its sender has given it up.
#[test]
fn g9_a_write_that_arrives_late_counts_once() {
    let proxy = FaultProxy::to(server().addr());
    let (table, policy) = (fresh_table(), policy("1000 requests / day"));
    let store = DynamoStore::connect(&url_through(proxy.addr(), &table)).unwrap();
    for round in 1..=3 {
        assert!(try_take(&store, &policy, &subject("s")));
        proxy.set(Fault::Blackhole);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| try_take(&store, &policy, &subject("s")));
            // The first attempt is given up after a second; the proxy has it still.
            while support::count(&store.counters().retries) < round {
                std::thread::sleep(Duration::from_millis(10));
            }
            proxy.clear();
            assert!(taken.join().unwrap());
        });
        assert_eq!(used(&store, &policy, &subject("s")), 2 * round);
    }
}

#[tokio::test]
async fn a_retry_gets_the_same_answer_after_concurrent_writes() {
    let front = AwsFront::to(server().addr());
    let table = fresh_table();
    let (link, policy) = (link(&front, &table), policy("10 requests / day"));
    assert_eq!(grants(&send(&link, &call(1, takes(&policy, 1))).await.unwrap()), 1);
    front.next(1, "PutItem", Treatment::Lost);
    let lost = call(2, takes(&policy, 6));
    assert_eq!(send(&link, &lost).await.unwrap_err().retry, Retry::Unclear);
    let (other, shared) = (store(&table), policy.clone());
    blocking(move || (0..3).for_each(|_| assert!(try_take(&other, &shared, &subject("s"))))).await;
    assert_eq!(grants(&send(&link, &again(&lost)).await.unwrap()), 6, "as it was decided then");
    assert_eq!(grants(&send(&link, &call(3, takes(&policy, 3))).await.unwrap()), 0, "ten of ten are taken");
}

#[tokio::test]
async fn a_lost_write_is_decided_again() {
    let front = AwsFront::to(server().addr());
    let table = fresh_table();
    let (link, policy) = (link(&front, &table), policy("10 requests / day"));
    assert_eq!(grants(&send(&link, &call(1, takes(&policy, 1))).await.unwrap()), 1);
    front.next(1, "PutItem", Treatment::Unavailable);
    let lost = call(2, takes(&policy, 6));
    assert_eq!(send(&link, &lost).await.unwrap_err().retry, Retry::Unclear);
    let (other, shared) = (store(&table), policy.clone());
    blocking(move || (0..5).for_each(|_| assert!(try_take(&other, &shared, &subject("s"))))).await;
    assert_eq!(grants(&send(&link, &again(&lost)).await.unwrap()), 4, "four were left");
}

#[tokio::test]
async fn a_call_that_was_answered_is_not_taken_again() {
    let front = AwsFront::to(server().addr());
    let (link, policy) = (link(&front, &fresh_table()), policy("10 requests / day"));
    let first = call(1, takes(&policy, 2));
    assert_eq!(grants(&send(&link, &first).await.unwrap()), 2);
    assert_eq!(send(&link, &first).await.unwrap_err().retry, Retry::Useless);
    assert_eq!(grants(&send(&link, &call(2, takes(&policy, 9))).await.unwrap()), 8);
    assert_eq!(send(&link, &first).await.unwrap_err().retry, Retry::Useless, "a later one was applied");
}

/// An item remembers 128 writers. An evicted writer cannot look up its write: it counts as spent.
#[tokio::test]
async fn an_evicted_writer_counts_its_take_as_spent() {
    let front = AwsFront::to(server().addr());
    let (table, policy) = (fresh_table(), policy("1000 requests / day"));
    let first = link(&front, &table);
    assert_eq!(grants(&send(&first, &call(1, takes(&policy, 1))).await.unwrap()), 1);
    front.next(1, "PutItem", Treatment::Lost);
    let lost = call(2, takes(&policy, 1));
    assert_eq!(send(&first, &lost).await.unwrap_err().retry, Retry::Unclear);
    for _ in 0..128 {
        let other = link(&front, &table);
        assert_eq!(grants(&send(&other, &call(1, takes(&policy, 1))).await.unwrap()), 1);
    }
    let error = send(&first, &again(&lost)).await.unwrap_err();
    assert_eq!(error.retry, Retry::Useless, "{error}");
    assert!(error.message.contains("counts as spent"), "{error}");
    blocking(move || {
        assert_eq!(used(&store(&table), &policy, &subject("s")), 130);
        let item = server().only_item(&table);
        assert_eq!(item["writers"]["L"].as_array().unwrap().len(), 128);
    })
    .await;
}

/// More accounts than one transaction takes: the call is split, and each part counts once.
#[tokio::test]
async fn a_call_on_many_accounts_is_split_and_counts_once() {
    let front = AwsFront::to(server().addr());
    let table = fresh_table();
    let (link, shared) = (link(&front, &table), Policy::new("a", ["1000 requests / day"]).unwrap());
    let name = |number: usize, side: char| Policy::new(&format!("b{side}{number}"), ["9 / day"]).unwrap();
    let operations: Vec<Operation> = (0..64)
        .map(|number| take_operation(&[&shared, &name(number, 'l'), &name(number, 'r')], &subject("s")))
        .collect();
    for (sequence, part) in (1..).zip([1, 2]) {
        let wide = call(sequence, operations.clone());
        front.next(part - 1, "Transact", Treatment::Answered);
        front.next(1, "Transact", Treatment::Lost);
        let mut error = send(&link, &wide).await.unwrap_err();
        // On a busy machine it may give up before it writes. Nothing is unclear then, so it is the same call.
        while error.retry == Retry::Safe {
            error = send(&link, &wide).await.unwrap_err();
        }
        assert_eq!(error.retry, Retry::Unclear, "{error}");
        assert_eq!(grants(&send(&link, &again(&wide)).await.unwrap()), 64);
        let (table, shared) = (table.clone(), shared.clone());
        blocking(move || {
            let store = store(&table);
            assert_eq!(used(&store, &shared, &subject("s")), 64 * sequence);
            let last = Policy::new("br63", ["9 / day"]).unwrap();
            assert_eq!(used(&store, &last, &subject("s")), sequence);
        })
        .await;
    }
}
