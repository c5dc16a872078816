//! Calls to a Cluster: those of one node go together, and each finds its keys while slots move.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway_core::{
    Action, Charge, Operation, Outcome, Outcomes, PermitId, Policy, StoreError, Subject, Terms,
};
use tollway_redis::{Address, RedisLink};
use tollway_remote::{Call, Link, Tag};
use tollway_testkit::servers::{RedisCluster, RedisServer};

const SUBJECTS: u64 = 30;

fn link(cluster: &RedisCluster) -> Arc<RedisLink> {
    let url = format!("redis+cluster://{}?deadline=20s", cluster.nodes()[0].addr());
    Arc::new(RedisLink::new(&Address::parse(&url).unwrap()).unwrap())
}

fn policy() -> Arc<Policy> {
    Arc::new(Policy::new("api", ["100 / day"]).unwrap())
}

/// A call of one operation; its sequence is also the number of its permit.
fn call(subject: u64, sequence: u64, action: Action) -> Arc<Call> {
    let charge = Charge::new(policy(), Subject::new(&subject.to_string()).unwrap());
    let operation = Operation::one(charge, action);
    let (tag, operations) = (Tag::of(&operation).unwrap(), [operation].into());
    Arc::new(Call { tag, sequence, again: false, operations })
}

fn take(subject: u64, sequence: u64) -> Arc<Call> {
    call(subject, sequence, Action::Take(Terms::now(PermitId(u128::from(sequence * 1_000 + subject)))))
}

async fn send(link: &Arc<RedisLink>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
    Arc::clone(link).send(calls).await
}

/// One take of every subject, all of which must be granted.
async fn take_of_all(link: &Arc<RedisLink>, sequence: u64) {
    let answers = send(link, (0..SUBJECTS).map(|subject| take(subject, sequence)).collect()).await;
    for (subject, answer) in answers.into_iter().enumerate() {
        let granted = matches!(&answer.unwrap()[0], Outcome::Decided(decision) if decision.is_granted());
        assert!(granted, "subject {subject}, take {sequence}");
    }
}

/// What each subject has used.
async fn used(link: &Arc<RedisLink>, sequence: u64) -> Vec<u64> {
    let peeks = (0..SUBJECTS).map(|subject| call(subject, sequence, Action::Peek)).collect();
    let used = |answer: Result<Outcomes, StoreError>| match answer.unwrap().remove(0) {
        Outcome::Peeked(charges) => charges[0].readings[0].used,
        other => panic!("a peek is answered with {other:?}"),
    };
    send(link, peeks).await.into_iter().map(used).collect()
}

fn scripts_run(node: &RedisServer) -> u64 {
    let stats = node.command(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_evalsha:calls=").map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

/// B1: calls to one node are one command, whatever their slots.
#[tokio::test]
async fn calls_of_one_node_are_one_command() {
    let cluster = RedisCluster::start(3);
    let link = link(&cluster);
    take_of_all(&link, 1).await;
    let before: Vec<u64> = cluster.nodes().iter().map(scripts_run).collect();
    take_of_all(&link, 2).await;
    let after = cluster.nodes().iter().map(scripts_run);
    assert_eq!(after.zip(before).map(|(after, before)| after - before).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(used(&link, 3).await, [2; SUBJECTS as usize]);
}

/// B1: a call in a command with others follows its slot to another node, and counts once.
#[tokio::test]
async fn a_call_follows_its_slot() {
    let cluster = RedisCluster::start(3);
    let link = link(&cluster);
    take_of_all(&link, 1).await;
    let key = "tollway:1:{s:7}:api";
    let from = cluster.node_of(key);
    let to = cluster.nodes().iter().find(|node| node.port() != from.port()).unwrap();
    let slot = from.command(&["CLUSTER", "KEYSLOT", key]);
    let (from_id, to_id) = (from.command(&["CLUSTER", "MYID"]), to.command(&["CLUSTER", "MYID"]));
    assert_eq!(to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), "OK");
    assert_eq!(from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), "OK");
    take_of_all(&link, 2).await;

    let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
    let port = to.port().to_string();
    let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    migrate.extend(keys.lines());
    assert_eq!(from.command(&migrate), "OK");
    take_of_all(&link, 3).await;
    assert_eq!(to.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), "2", "the account and its last call");

    for node in [to, from] {
        assert_eq!(node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), "OK");
    }
    take_of_all(&link, 4).await;
    take_of_all(&link, 5).await;
    assert_eq!(used(&link, 6).await, [5; SUBJECTS as usize]);
}

/// The key of an account that moved while its old node has none: nothing is decided on an empty account.
#[tokio::test]
async fn nothing_is_decided_while_keys_are_on_two_nodes() {
    let cluster = RedisCluster::start(3);
    let link = link(&cluster);
    take_of_all(&link, 1).await;
    let key = "tollway:1:{s:7}:api";
    let from = cluster.node_of(key);
    let to = cluster.nodes().iter().find(|node| node.port() != from.port()).unwrap();
    let slot = from.command(&["CLUSTER", "KEYSLOT", key]);
    let (from_id, to_id) = (from.command(&["CLUSTER", "MYID"]), to.command(&["CLUSTER", "MYID"]));
    to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
    from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    let port = to.port().to_string();
    assert_eq!(from.command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]), "OK");
    let answers = send(&link, (0..SUBJECTS).map(|subject| take(subject, 2)).collect()).await;
    for (subject, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(_) => assert_ne!(subject, 7),
            Err(error) => {
                assert_eq!((subject, error.retry), (7, tollway_core::Retry::Safe), "{error}");
                assert!(error.message.contains("TRYAGAIN"), "{error}");
            }
        }
    }
    assert_eq!(to.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), "1");
}
