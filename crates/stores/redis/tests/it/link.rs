//! The duties of a link: a call counts once, missing calendar windows are requested, errors say what to do.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway_core::{
    Action, Charge, Fault, Operation, Outcome, Outcomes, PermitId, Policy, Retry, Span, Store, StoreError,
    Subject, Terms, Timestamp,
};
use tollway_redis::{Address, RedisLink};
use tollway_remote::{Call, Link, Tag};
use tollway_testkit::servers::{RedisCluster, RedisServer};
use tollway_testkit::{ManualClock, PlainStore, wait_for};

/// With a deadline that a busy machine keeps.
fn link(url: &str) -> Arc<RedisLink> {
    let url = format!("{url}{}deadline=20s", if url.contains('?') { '&' } else { '?' });
    Arc::new(RedisLink::new(&Address::parse(&url).unwrap()).unwrap())
}

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().copied()).unwrap()
}

fn charge(policy: &Policy, subject: &str) -> Charge {
    Charge::new(Arc::new(policy.clone()), Subject::new(subject).unwrap())
}

fn take(charges: Vec<Charge>, permit: u128) -> Operation {
    Operation { charges: charges.into(), action: Action::Take(Terms::now(PermitId(permit))) }
}

fn call(sequence: u64, operations: Vec<Operation>) -> Arc<Call> {
    let (tag, operations) = (Tag::of(&operations[0]).unwrap(), operations.into());
    Arc::new(Call { tag, sequence, again: false, operations })
}

async fn send(link: &Arc<RedisLink>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
    link.clone().send(calls).await
}

async fn send_one(link: &Arc<RedisLink>, call: Arc<Call>) -> Result<Outcomes, StoreError> {
    send(link, vec![call]).await.remove(0)
}

async fn used(link: &Arc<RedisLink>, policy: &Policy, sequence: u64) -> u64 {
    let peek = Operation::one(charge(policy, ""), Action::Peek);
    match send_one(link, call(sequence, vec![peek])).await.unwrap().remove(0) {
        Outcome::Peeked(charges) => charges[0].readings[0].used,
        other => panic!("a peek is answered with {other:?}"),
    }
}

fn granted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Decided(decision) if decision.is_granted())
}

/// I5: sent again, a call is answered as the first time, to the letter, and not counted.
#[tokio::test]
async fn a_resent_call_counts_once() {
    let link = link(&RedisServer::shared().url());
    let policy = policy("again", &["10 / day bucket"]);
    let first = call(1, vec![take(vec![charge(&policy, "")], 1), take(vec![charge(&policy, "")], 2)]);
    let answer = send_one(&link, first.clone()).await.unwrap();
    assert_eq!(answer, send_one(&link, first).await.unwrap());
    assert_eq!(used(&link, &policy, 2).await, 2);
}

/// Two writers have sequences of their own.
#[tokio::test]
async fn writers_do_not_confuse_their_calls() {
    let (one, other) = (link(&RedisServer::shared().url()), link(&RedisServer::shared().url()));
    let policy = policy("writers", &["10 / day bucket"]);
    for link in [&one, &other] {
        let outcomes = send_one(link, call(1, vec![take(vec![charge(&policy, "")], 1)])).await.unwrap();
        assert!(granted(&outcomes[0]));
    }
    assert_eq!(used(&one, &policy, 2).await, 2);
}

/// A denial leaves nothing behind, not even the call.
#[tokio::test]
async fn a_denial_writes_nothing() {
    let server = RedisServer::start();
    let link = link(&server.url());
    let policy = policy("denied", &["1 / day bucket"]);
    for (sequence, writes) in [(1, true), (2, false)] {
        let before = server.command(&["INFO", "persistence"]);
        let outcomes =
            send_one(&link, call(sequence, vec![take(vec![charge(&policy, "")], 1)])).await.unwrap();
        assert_eq!(granted(&outcomes[0]), writes);
        let changes =
            |info: &str| info.lines().find(|line| line.starts_with("rdb_changes")).unwrap().to_owned();
        assert_eq!(changes(&before) != changes(&server.command(&["INFO", "persistence"])), writes);
    }
}

/// Calls sent together are answered each for itself, and a whole pipeline survives a server that knows no script.
#[tokio::test]
async fn calls_sent_together_are_answered_each_for_itself() {
    let server = RedisServer::start();
    let link = link(&server.url());
    let policy = policy("together", &["2 / day bucket"]);
    for round in 0..3 {
        assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK");
        let one = |number: u64| {
            let side = charge(&policy, &format!("subject {number}"));
            call(round * 100 + number + 1, vec![take(vec![side], (round * 100 + number).into())])
        };
        let answers = send(&link, (0..40).map(one).collect()).await;
        assert_eq!(answers.len(), 40);
        assert!(answers.iter().all(|answer| granted(&answer.as_ref().unwrap()[0]) == (round < 2)));
    }
}

/// A full month sends the search to another month, whose days the request lacks: the script requests them.
#[tokio::test]
async fn missing_calendar_windows_are_requested() {
    let now = Timestamp::from_secs(1_794_720_780);
    let clock = Arc::new(ManualClock::at(now));
    let server = RedisServer::start();
    let address = Address::parse(&format!("{}?deadline=20s", server.url())).unwrap();
    let link = Arc::new(RedisLink::with_test_clock(&address, clock.clone()).unwrap());
    let plain = PlainStore::new(clock);
    let limits =
        ["1 / month in Europe/Berlin", "1 / day in America/Los_Angeles", "1 / week in Asia/Kathmandu"];
    let policy = policy("calendar", &limits).with_edge(Span::from_millis(250));
    for sequence in 1..4 {
        let operation = take(vec![charge(&policy, "")], sequence.into());
        let expected = wait_for(plain.apply(std::slice::from_ref(&operation))).unwrap();
        let asked = scripts_run(&server);
        let answer = send_one(&link, call(sequence, vec![operation])).await.unwrap();
        assert_eq!(answer, expected);
        assert_eq!(granted(&answer[0]), sequence == 1);
        assert!(sequence == 1 || scripts_run(&server) > asked + 1, "it was sent again with more windows");
    }
}

fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_evalsha:calls=").map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

/// A call over two slots of a Cluster cannot be one step: the store sends none (`across_slots.rs`), and the server refuses it.
#[tokio::test]
async fn a_call_over_several_slots_is_refused() {
    let cluster = RedisCluster::shared();
    let url = format!("redis+cluster://{}", cluster.nodes()[0].addr());
    let policy = policy("slots", &["10 / day bucket"]);
    let both = |sequence| call(sequence, vec![take(vec![charge(&policy, "a"), charge(&policy, "b")], 1)]);
    let error = send_one(&link(&url), both(1)).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless), "{error}");
    assert!(error.message.contains("`slot = \"NAME\"`"), "{error}");
    let outcomes = send_one(&link(&format!("{url}?prefix=%7Bshared%7D:")), both(1)).await.unwrap();
    assert!(granted(&outcomes[0]));
}

/// A subject cannot break out of its hash tag: its account and another's are different keys.
#[tokio::test]
async fn no_subject_reaches_another_subjects_account() {
    let link = link(&RedisServer::shared().url());
    let policy = policy("subjects", &["1 / day bucket"]);
    let subjects = ["", "a", "{a}", "}a{", "a}:subjects", "s:a", "%61", "a\r\nb", "a b", "é"];
    for (number, subject) in (1..).zip(subjects) {
        let outcomes =
            send_one(&link, call(number, vec![take(vec![charge(&policy, subject)], number.into())])).await;
        assert!(granted(&outcomes.unwrap()[0]), "{subject:?} is new");
    }
}

#[tokio::test]
async fn errors_say_what_to_do_and_hide_the_password() {
    let server = RedisServer::start_with(&["--requirepass", "secret"]);
    let policy = policy("errors", &["1 / day"]);
    let one = || call(1, vec![take(vec![charge(&policy, "")], 1)]);
    let addr = server.addr();
    for url in [format!("redis://{addr}"), format!("redis://:terces@{addr}")] {
        let error = send_one(&link(&url), one()).await.unwrap_err();
        assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
        assert!(
            error.message.contains("redis://USER:PASSWORD@HOST") && !error.message.contains("terces"),
            "{error}"
        );
    }
    assert!(send_one(&link(&server.url()), one()).await.is_ok());

    server.command(&["ACL", "SETUSER", "guest", "on", ">guest", "~*", "+@connection"]);
    let error = send_one(&link(&format!("redis://guest:guest@{addr}")), one()).await.unwrap_err();
    assert_eq!(error.retry, Retry::Useless);
    assert!(error.message.contains("EVALSHA"), "{error}");

    server.kill();
    let error = send_one(&link(&server.url()), one()).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Network, Retry::Safe), "{error}");
}

/// A replica has not applied the call, which may be retried. For a server without room, see `full.rs`.
#[tokio::test]
async fn a_read_only_server_is_retryable() {
    let server = RedisServer::start();
    let link = link(&server.url());
    let policy = policy("full", &["10 / day bucket"]);
    let one = |sequence: u64| call(sequence, vec![take(vec![charge(&policy, "")], sequence.into())]);
    let master = RedisServer::start();
    server.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let error = send_one(&link, one(2)).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Safe), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    send_one(&link, one(3)).await.unwrap();
    assert_eq!(used(&link, &policy, 4).await, 1);
}
