//! The layout `consumers` on keys that hold no count: another program's value, another type, or a number that is none. A
//! take replaces them, so that no consumer is unlimited.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use crate::asking::{SIX, minute, number, of, open, policy};
use tollway_core::{Action, Outcome};
use tollway_testkit::servers::RedisServer;

const KEY: &str = "abc_PER_MINUTE";

/// Commands that leave a key without a count: strings that are none, numbers out of range, and other types.
fn broken() -> Vec<Vec<&'static str>> {
    let strings = [
        "",
        "hello",
        "-3",
        "-1",
        "1.5",
        "1e3",
        "1e2",
        "007",
        " 7",
        "0x10",
        "inf",
        "nan",
        "9007199254740992",
        "100000000000000000000",
    ];
    let strings = strings.into_iter().map(|value| vec!["SET", KEY, value]);
    let types =
        [&["RPUSH", KEY, "1"][..], &["HSET", KEY, "a", "1"], &["SADD", KEY, "1"], &["ZADD", KEY, "1", "a"]];
    strings.chain(types.map(<[_]>::to_vec)).collect()
}

/// Writes such a key, with an expiry or without.
fn put(server: &RedisServer, words: &[&str], expires: bool) {
    server.command(&["DEL", KEY]);
    server.command(words);
    assert_eq!(server.command(&["EXISTS", KEY]), "1", "{words:?}");
    if expires {
        server.command(&["PEXPIRE", KEY, "3600000"]);
    }
}

/// Every kind of broken value, with an expiry or without, by the fast path and by the slow path: the limit holds.
#[test]
fn broken_counters_are_replaced_by_ones_that_count() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(3));
    for words in broken() {
        for (expires, id) in [(false, None), (true, None), (false, Some("a")), (true, Some("b"))] {
            put(&server, &words, expires);
            server.command(&["DEL", "tollway:1:{s:abc}:consumers:ids"]);
            let consumer = of(&store, &policy, "abc");
            assert_eq!(consumer.decide(id).charges[0].readings[0].remaining, 2, "{words:?}");
            assert_eq!(server.command(&["GET", KEY]), "1", "{words:?}");
            let left = number(&server, &["PTTL", KEY]);
            assert!(left > 0 && left <= 60_000, "{words:?}: {left} ms");
            consumer.take();
            consumer.take();
            assert_eq!(consumer.denied().limit, 0, "{words:?}");
        }
    }
}

/// A reset deletes them, and a correction does not fail.
#[test]
fn broken_counters_are_reset() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(3));
    let consumer = of(&store, &policy, "abc");
    for words in broken() {
        for expires in [false, true] {
            let booking = *consumer.take().booking().unwrap();
            put(&server, &words, expires);
            consumer.give_back(booking, false);
            assert_eq!(consumer.apply(Action::Reset).unwrap(), Outcome::Reset, "{words:?}");
            assert_eq!(server.command(&["EXISTS", KEY]), "0", "{words:?}");
        }
    }
}

/// What counts nothing changes nothing: a look, and a denial by another limit.
#[test]
fn looks_and_denials_leave_broken_counters() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&SIX));
    let consumer = of(&store, &policy, "abc");
    server.command(&["SET", KEY, "hello"]);
    server.command(&["SET", "abc_PER_HOUR", "1000", "EX", "3600"]);
    assert_eq!(consumer.used()[1], 0);
    assert_eq!(consumer.denied().limit, 2);
    assert_eq!((server.command(&["GET", KEY]), number(&server, &["TTL", KEY])), ("hello".to_owned(), -1));
    server.command(&["DEL", "abc_PER_HOUR"]);
    consumer.take();
    assert_eq!(server.command(&["GET", KEY]), "1");
    // The largest count that is one stays, and denies.
    server.command(&["SET", "abc_PER_HOUR", "9007199254740991", "EX", "3600"]);
    assert_eq!(consumer.denied().limit, 2);
    assert_eq!(server.command(&["GET", "abc_PER_HOUR"]), "9007199254740991");
}
