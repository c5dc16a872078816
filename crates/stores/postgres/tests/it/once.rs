//! A call counts once, however often it is sent and wherever its answer was lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support::lossy::LossyNetwork;
use crate::support::{fresh_schema, policy, rows, server, store, subject, take, take_operation, url, used};
use tollway_core::{Operation, Outcome, Outcomes, Policy, Retry, StoreError};
use tollway_postgres::{PostgresLink, PostgresStore};
use tollway_remote::{Call, Link, Tag};

/// The statement as it is sent. `READ COMMITTED` is not meant.
const COMMIT: &str = "COMMIT\0";

fn call(sequence: u64, again: bool, operations: Vec<Operation>) -> Arc<Call> {
    let tag = Tag::of(&operations[0]).unwrap();
    Arc::new(Call { tag, sequence, again, operations: operations.into() })
}

fn again(call: &Arc<Call>) -> Arc<Call> {
    Arc::new(Call { again: true, ..(**call).clone() })
}

fn link(schema: &str) -> Arc<PostgresLink> {
    Arc::new(PostgresLink::new(url(schema).parse().unwrap()))
}

async fn send(link: &Arc<PostgresLink>, call: &Arc<Call>) -> Result<Outcomes, StoreError> {
    Arc::clone(link).send(vec![Arc::clone(call)]).await.remove(0)
}

/// Sends calls together, and again those whose connection the server ended because a busy machine let it idle: they were not
/// applied.
async fn send_all(link: &Arc<PostgresLink>, calls: &[Arc<Call>]) -> Vec<Outcomes> {
    let mut answers: Vec<Option<Outcomes>> = vec![None; calls.len()];
    loop {
        let missing: Vec<usize> = (0..calls.len()).filter(|index| answers[*index].is_none()).collect();
        if missing.is_empty() {
            return answers.into_iter().flatten().collect();
        }
        let sent = missing.iter().map(|index| Arc::clone(&calls[*index])).collect();
        for (index, answer) in missing.into_iter().zip(Arc::clone(link).send(sent).await) {
            match answer {
                Ok(outcomes) => answers[index] = Some(outcomes),
                Err(error) => assert_eq!(error.retry, Retry::Safe, "{error}"),
            }
        }
    }
}

fn grants(outcomes: &Outcomes) -> usize {
    let granted = |outcome: &&Outcome| matches!(outcome, Outcome::Decided(decision) if decision.is_granted());
    outcomes.iter().filter(granted).count()
}

fn takes(policy: &Policy, count: usize) -> Vec<Operation> {
    (0..count).map(|_| take_operation(policy, &subject("s"))).collect()
}

#[tokio::test]
async fn a_resent_call_gets_the_first_answer() {
    let schema = fresh_schema();
    let (link, other) = (link(&schema), link(&schema));
    let policy = policy("10 requests / day");
    let first = call(1, false, takes(&policy, 6));
    let answer = send(&link, &first).await.unwrap();
    assert_eq!(grants(&answer), 6);
    // Another writer changes the account meanwhile, with the same sequence.
    assert_eq!(grants(&send(&other, &call(1, false, takes(&policy, 3))).await.unwrap()), 3);
    assert_eq!(send(&link, &again(&first)).await.unwrap(), answer);
    assert_eq!(send(&link, &first).await.unwrap(), answer, "whether or not it knows that it was sent before");
    let next = call(2, false, takes(&policy, 3));
    let answer = send(&link, &next).await.unwrap();
    assert_eq!(grants(&answer), 1, "six and three were taken of ten");
    assert_eq!(send(&link, &again(&next)).await.unwrap(), answer, "denials among grants are repeated, too");
    assert_eq!(
        send(&link, &again(&first)).await.unwrap_err().retry,
        Retry::Useless,
        "later ones were applied"
    );
}

#[tokio::test]
async fn the_same_call_on_several_connections_at_once_counts_once() {
    let schema = fresh_schema();
    let link = link(&schema);
    let policy = policy("100 requests / day");
    let first = again(&call(1, false, takes(&policy, 5)));
    let answers = futures_util::future::join_all((0..8).map(|_| send(&link, &first))).await;
    let first = answers[0].as_ref().unwrap();
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap() == first));
    tokio::task::spawn_blocking(move || assert_eq!(used(&store(&schema), &policy, &subject("s")), 5))
        .await
        .unwrap();
}

#[tokio::test]
async fn calls_sent_together_are_answered_each_and_kept_each() {
    let schema = fresh_schema();
    let link = link(&schema);
    let policy = policy("1 request / day");
    let subjects: Vec<_> = (0..100).map(|number| subject(&format!("s{number}"))).collect();
    let calls: Vec<_> = (1..)
        .zip(&subjects)
        .map(|(n, subject)| call(n, false, vec![take_operation(&policy, subject)]))
        .collect();
    let answers = send_all(&link, &calls).await;
    assert!(answers.iter().all(|answer| grants(answer) == 1));
    let repeated: Vec<_> = calls.iter().map(again).collect();
    assert_eq!(send_all(&link, &repeated).await, answers);
    assert_eq!((rows(&schema, "lines"), rows(&schema, "calls")), (100, 100));
}

/// The answer is lost with the connection, after the server has all that was sent.
#[test]
fn a_take_whose_commit_answer_is_lost_counts_once() {
    let schema = fresh_schema();
    let policy = policy("10 requests / day");
    assert_eq!(used(&store(&schema), &policy, &subject("s")), 0);
    let network = LossyNetwork::before(server().addr(), COMMIT, 2);
    let far = format!("postgres://postgres@{}/postgres?schema={schema}&deadline=20s", network.addr);
    let far = PostgresStore::connect(&far).unwrap();
    assert!(take(&far, &[&policy], &subject("s")).unwrap().is_some(), "it was resent, and granted once");
    assert_eq!(network.losses_left(), 1, "resent, there was nothing to commit");
    assert!(take(&far, &[&policy], &subject("s")).unwrap().is_some());
    assert_eq!(network.losses_left(), 0);
    assert_eq!(used(&store(&schema), &policy, &subject("s")), 2);
}

/// What is lost before `COMMIT` was sent has not happened, and the link says so.
#[tokio::test]
async fn a_lost_connection_is_safe_to_retry_only_before_the_commit() {
    let schema = fresh_schema();
    let policy = policy("10 requests / day");
    assert_eq!(grants(&send(&link(&schema), &call(1, false, takes(&policy, 1))).await.unwrap()), 1);
    for (word, retry) in [("BEGIN", Retry::Safe), (COMMIT, Retry::Unclear)] {
        let network = LossyNetwork::before(server().addr(), word, 1);
        let far = format!("postgres://postgres@{}/postgres?schema={schema}", network.addr);
        let far = Arc::new(PostgresLink::new(far.parse().unwrap()));
        let lost = call(1, false, takes(&policy, 1));
        assert_eq!(send(&far, &lost).await.unwrap_err().retry, retry, "{word}");
        assert_eq!(grants(&send(&far, &again(&lost)).await.unwrap()), 1, "{word}");
    }
    let near = store(&schema);
    tokio::task::spawn_blocking(move || assert_eq!(used(&near, &policy, &subject("s")), 3)).await.unwrap();
}

#[tokio::test]
async fn a_denial_is_not_kept_and_an_answer_is_kept_for_a_minute() {
    let schema = fresh_schema();
    let link = link(&schema);
    let policy = policy("1 request / day");
    assert_eq!(grants(&send(&link, &call(1, false, takes(&policy, 1))).await.unwrap()), 1);
    assert_eq!(grants(&send(&link, &call(2, false, takes(&policy, 1))).await.unwrap()), 0);
    let kept = format!(
        "SELECT sequence, kept_until - applied_at BETWEEN 60000000 AND 120000000 FROM {schema}.calls"
    );
    assert_eq!(server().query(&kept), "1|t");
}
