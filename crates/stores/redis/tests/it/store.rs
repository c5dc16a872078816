//! The store as a whole, on real time: races, lost answers, frozen and restarted servers, limits as data.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Action, Charge, Name, Operation, Outcome, PermitId, Policy, Retry, SettingChange, Store, StoreError,
    Subject, Terms,
};
use tollway_redis::RedisStore;
use tollway_testkit::faults::{Fault, FaultProxy};
use tollway_testkit::servers::{RedisSentinel, RedisServer};
use tollway_testkit::wait_for;

static PERMITS: AtomicU64 = AtomicU64::new(1);

fn open(url: &str) -> RedisStore {
    RedisStore::open(url).unwrap()
}

fn policy(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit]).unwrap()
}

fn apply(store: &RedisStore, policy: &Policy, action: Action) -> Result<Outcome, StoreError> {
    let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED);
    wait_for(store.apply(&[Operation::one(charge, action)])).map(|mut outcomes| outcomes.remove(0))
}

/// Whether one request is granted.
fn take(store: &RedisStore, policy: &Policy) -> Result<bool, StoreError> {
    let permit = PermitId(PERMITS.fetch_add(1, Ordering::Relaxed).into());
    match apply(store, policy, Action::Take(Terms::now(permit)))? {
        Outcome::Decided(decision) => Ok(decision.is_granted()),
        other => panic!("a take is answered with {other:?}"),
    }
}

/// Takes until the store answers, as a caller does while a server is away.
fn take_in_the_end(store: &RedisStore, policy: &Policy) -> bool {
    let answer = (0..200).find_map(|_| take(store, policy).ok());
    answer.unwrap_or_else(|| panic!("the store does not come back"))
}

fn used(store: &RedisStore, policy: &Policy) -> u64 {
    match apply(store, policy, Action::Peek).unwrap() {
        Outcome::Peeked(charges) => charges[0].readings[0].used,
        other => panic!("a peek is answered with {other:?}"),
    }
}

/// I1: two stores, as two processes have them, and eight threads on each: exactly the amount is granted.
#[test]
fn stores_that_race_never_exceed_a_limit() {
    let url = format!("{}?deadline=20s", RedisServer::shared().url());
    let stores = [Arc::new(open(&url)), Arc::new(open(&url))];
    let limits = ["500 / day from first call", "500 / 300 days bucket", "500 concurrent expires 1h"];
    for (number, limit) in limits.into_iter().enumerate() {
        let policy = policy(&format!("race-{number}"), limit);
        let race = || {
            std::thread::scope(|scope| {
                let hammer = |thread: usize| {
                    let (store, policy) = (stores[thread % 2].clone(), &policy);
                    scope.spawn(move || (0..60).filter(|_| take(&store, policy).unwrap()).count())
                };
                let threads: Vec<_> = (0..16).map(hammer).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
            })
        };
        assert_eq!(race(), 500, "{limit}");
        assert_eq!(used(&stores[0], &policy), 500, "{limit}");
    }
}

/// I6: an account expires a second after it no longer counts; a writer's answer after a minute.
#[test]
fn keys_expire_when_they_no_longer_count() {
    let server = RedisServer::start();
    let store = open(&format!("{}?deadline=20s", server.url()));
    assert!(take(&store, &policy("lives", "5 / hour from first call")).unwrap());
    for (pattern, longest) in [("*}:lives", 3_601_000), ("*:answers:*", 60_000)] {
        let key = server.command(&["KEYS", pattern]);
        let lives: u64 = server.command(&["PTTL", &key]).parse().unwrap();
        assert!(lives > 0 && lives <= longest, "{key} lives {lives} ms");
    }
    assert_eq!(server.command(&["DBSIZE"]), "2");
}

/// I5: the server applied the call and its answer was lost. It is resent and counts once.
#[test]
fn a_take_whose_answer_is_lost_counts_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.addr());
    let store = open(&format!("redis://{}?deadline=20s", proxy.addr()));
    let policy = policy("lost", "100 / day bucket");
    assert!(take(&store, &policy).unwrap());
    for _ in 0..5 {
        proxy.set(Fault::LoseReplies { times: Some(1) });
        assert!(take(&store, &policy).unwrap());
    }
    assert_eq!(proxy.counts().replies_lost, 5);
    assert_eq!(used(&store, &policy), 6);
}

/// A server that takes connections and answers nothing is noticed before the caller's deadline, and works when it is back.
#[test]
fn a_frozen_server_fails_within_the_deadline() {
    let server = RedisServer::start();
    let store = open(&format!("{}?deadline=300ms", server.url()));
    let policy = policy("frozen", "1000 / day bucket");
    assert!(take_in_the_end(&store, &policy));
    server.pause();
    let error = take(&store, &policy).unwrap_err();
    assert_eq!(error.fault, tollway_core::Fault::Network, "{error}");
    assert_ne!(error.retry, Retry::Useless);
    server.resume();
    assert!(take_in_the_end(&store, &policy));
}

/// A restart drops every connection and every script; what was counted stays counted.
#[test]
fn a_restart_forgets_nothing_that_was_saved() {
    let server = RedisServer::start();
    let store = open(&format!("{}?deadline=20s", server.url()));
    let policy = policy("restart", "3 / day bucket");
    for round in 0..5 {
        assert_eq!(take(&store, &policy).unwrap(), round < 3);
        server.restart();
    }
}

/// When the master is gone, the sentinels' new one is used, and remembers what was replicated.
#[test]
fn sentinels_name_the_server() {
    let group = RedisSentinel::start();
    let hosts: Vec<String> = group.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    let store = open(&format!("redis+sentinel://{}/{}?deadline=2s", hosts.join(","), RedisSentinel::NAME));
    let policy = policy("sentinel", "3 / day bucket");
    assert!(take(&store, &policy).unwrap());
    assert_eq!(group.master().command(&["WAIT", "1", "10000"]), "1");
    group.replace_master();
    assert!(take_in_the_end(&store, &policy));
    assert_eq!(used(&store, &policy), 2);
}

#[test]
fn set_limits_are_read_by_every_process() {
    let server = RedisServer::start();
    let url = format!("{}?deadline=20s", server.url());
    let (one, other) = (open(&url), open(&url));
    let name = |text: &str| Name::new(text).unwrap();
    let change = |limit: &str, amounts| {
        let change = SettingChange { policy: name("adobe"), limit: name(limit), amounts };
        wait_for(one.settings().unwrap().change(change))
    };
    change("rpm", Some((250, None))).unwrap();
    change("rpd", Some((9, Some(20)))).unwrap();
    change("rpm", Some((300, None))).unwrap();
    let read = || {
        let mut settings = wait_for(other.settings().unwrap().settings()).unwrap();
        settings.sort_by(|one, other| one.limit.cmp(&other.limit));
        settings
            .into_iter()
            .map(|setting| (setting.limit.to_string(), setting.amount, setting.burst))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(), [("rpd".to_owned(), 9, Some(20)), ("rpm".to_owned(), 300, None)]);
    change("rpd", None).unwrap();
    assert_eq!(read().len(), 1);
    let fill: Vec<String> = (0..1_023).flat_map(|n| [format!("full:l{n}"), "1::1".to_owned()]).collect();
    let key = server.command(&["KEYS", "*settings*"]);
    let words: Vec<&str> = ["HSET", &key].into_iter().chain(fill.iter().map(String::as_str)).collect();
    server.command(&words);
    assert!(change("one-more", Some((1, None))).unwrap_err().message.contains("clear some first"));
    change("rpm", Some((1, None))).unwrap();
}

/// Among other keys, and under a prefix that is also a pattern.
#[test]
fn accounts_are_listed() {
    let redis = RedisServer::start();
    tollway_testkit::account_list::are_listed(&open(&format!("{}?deadline=20s&prefix=other:", redis.url())));
    tollway_testkit::account_list::are_listed(&open(&format!("{}?deadline=20s&prefix=o*:", redis.url())));
}

#[test]
fn layout_of_consumers_lists_no_accounts() {
    let store = open(&format!("{}?layout=consumers", RedisServer::shared().url()));
    assert!(store.accounts(None, 10).is_none());
}
