//! The layout `consumers`: keys, values and TTLs that `redis-cli` and an existing system share with Tollway (C2).
//!
//! Keys expire by the server's clock, so these tests run on real time: what must not pass meanwhile is a minute or longer,
//! and what must pass is waited for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::asking::{SIX, charge, minute, number, of, open, outlive, policy, terms};
use tollway_core::{
    Action, Fault, Lease, Operation, Outcome, Period, Policy, Refusal, Retry, Span, Store, Subject,
    TakeOutcome, Timestamp,
};
use tollway_redis::{RedisStore, counter_key};
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, wait_for};

/// What `redis-cli` prints.
fn cli(server: &RedisServer, words: &[&str]) -> String {
    let output = redis_cli(server).args(words).output();
    let output =
        output.expect("this test needs the program redis-cli; install it: apt-get install redis-tools");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn redis_cli(server: &RedisServer) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string()]);
    command
}

/// 100 a minute: 99, 98 and 97 are left, the time runs on for every caller, and a new window begins after it.
#[test]
fn the_worked_example() {
    let server = RedisServer::start();
    let (store, policy, key) = (open(&server), minute(100), "consumer_123_PER_MINUTE");
    let consumer = of(&store, &policy, "consumer_123");
    assert_eq!(number(&server, &["TTL", key]), -2);
    let mut lives = 60_000;
    for (count, remaining) in [("1", 99), ("2", 98), ("3", 97)] {
        assert_eq!(consumer.remaining(), remaining);
        assert_eq!(server.command(&["GET", key]), count);
        let left = number(&server, &["PTTL", key]);
        assert!(left > 0 && left <= lives, "{left} of {lives} ms");
        while number(&server, &["PTTL", key]) == left {}
        lives = left - 1;
    }
    server.command(&["PEXPIRE", key, "1"]);
    outlive(&server, key);
    assert_eq!(consumer.remaining(), 99);
    let left = number(&server, &["PTTL", key]);
    assert!(left > 1 && left <= 60_000, "a minute again, not {left} ms");
}

/// Denied until the time that it names; then the window has expired by itself.
#[test]
fn a_window_expires_at_its_reported_time() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&["3 / second from first call"]));
    let consumer = of(&store, &policy, "c");
    for _ in 0..3 {
        let mut last = *consumer.take().booking().unwrap();
        let (denial, wait) = loop {
            let decision = consumer.decide(None);
            match decision.outcome {
                TakeOutcome::Granted(booking) => last = booking,
                TakeOutcome::Denied(denial) => break (denial, decision.wait()),
            }
        };
        assert_eq!((denial.retry_at, denial.limit), (last.good_until, 0));
        assert!(wait <= Span::from_millis(1_001), "a second, and what is left of a millisecond");
        std::thread::sleep(wait.into());
        assert_eq!(consumer.used(), [0]);
    }
}

/// Every documented command for operators, on keys that the store wrote.
#[test]
fn every_documented_command() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&SIX));
    let keys = Period::ALL.map(|period| counter_key(period, &Subject::new("consumer_abc123").unwrap()));
    let with_keys = |word| [word].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>();
    let sorted = |listed: &str| {
        let mut listed: Vec<String> = listed.lines().map(str::to_owned).collect();
        listed.sort();
        listed
    };
    let mut expected = keys.to_vec();
    expected.sort();
    for _ in 0..42 {
        // The counter of a second expires too soon to look at, so it is given a minute.
        server.command(&["SET", "consumer_abc123_PER_SECOND", "1", "EX", "60"]);
        of(&store, &policy, "consumer_abc123").take();
    }
    assert_eq!(sorted(&cli(&server, &["KEYS", "*_PER_*"])), expected);
    assert_eq!(sorted(&cli(&server, &["KEYS", "consumer_abc123_*"])), expected);
    assert_eq!(cli(&server, &["KEYS", "*_PER_*"]).lines().count(), 6);
    assert_eq!(cli(&server, &["GET", "consumer_abc123_PER_MINUTE"]), "42");
    for (key, period) in keys.iter().zip([60, 60, 3_600, 86_400, 604_800, 2_592_000]) {
        let left: i64 = cli(&server, &["TTL", key]).parse().unwrap();
        assert!(left > 0 && left <= period, "{key} lives {left} s");
    }
    assert_eq!(cli(&server, &with_keys("MGET")), "2\n42\n42\n42\n42\n42");
    assert_eq!(cli(&server, &["DEL", "consumer_abc123_PER_MINUTE"]), "1");
    assert_eq!(of(&store, &policy, "consumer_abc123").used(), [2, 0, 42, 42, 42, 42]);
    assert_eq!(cli(&server, &with_keys("DEL")), "5");
    assert_eq!(of(&store, &policy, "consumer_abc123").used(), [0; 6]);
    assert!(cli(&server, &["INFO", "memory"]).contains("used_memory_human:"));
}

/// `MONITOR` shows which keys a take counts in.
#[test]
fn takes_can_be_watched() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    let mut monitor = redis_cli(&server).arg("MONITOR").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "OK");
    of(&store, &policy, "watched").take();
    server.command(&["PING", "that was all"]);
    let mut seen = lines.take_while(|line| !line.contains("that was all"));
    let seen = seen.any(|line| line.contains("\"watched_PER_MINUTE\""));
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    assert!(seen);
}

/// Another program counts in the same keys, with its own commands: the budget is shared.
#[test]
fn a_foreign_writer_shares_the_budget() {
    let server = RedisServer::start();
    let (store, policy, key) = (open(&server), minute(5), "shared_PER_MINUTE");
    let consumer = of(&store, &policy, "shared");
    assert_eq!(cli(&server, &["TTL", key]), "-2");
    assert_eq!(cli(&server, &["SETEX", key, "60", "1"]), "OK");
    assert_eq!(consumer.remaining(), 3);
    assert_eq!(cli(&server, &["INCR", key]), "3");
    assert_eq!(consumer.remaining(), 1);
    assert_eq!(consumer.remaining(), 0);
    let denied = consumer.decide(None);
    assert!(!denied.is_granted() && denied.wait() <= Span::from_mins(1), "by the window that they began");
    // They may exceed, for they check and count in two steps; we then deny.
    assert_eq!(cli(&server, &["INCR", key]), "6");
    let denied = consumer.decide(None);
    assert_eq!((denied.is_granted(), denied.charges[0].readings[0].used), (false, 6));
    assert_eq!(cli(&server, &["GET", key]), "6");
    assert_eq!(cli(&server, &["DEL", key]), "1");
    assert_eq!(consumer.remaining(), 4);
    // And what we began, they go on with.
    assert_eq!(cli(&server, &["INCR", key]), "2");
    assert!(cli(&server, &["TTL", key]).parse::<i64>().unwrap() > 0);
}

/// A key that another program's race left without expiry gets its period with the next take, granted or not.
#[test]
fn a_key_without_expiry_gets_one() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(3));
    for (subject, count, granted) in [("endless", "2", true), ("denied", "3", false)] {
        let (consumer, key) = (of(&store, &policy, subject), format!("{subject}_PER_MINUTE"));
        server.command(&["SET", &key, count]);
        assert_eq!(consumer.used(), [count.parse::<u64>().unwrap()]);
        assert_eq!(number(&server, &["TTL", &key]), -1, "looking changes nothing");
        let decision = consumer.decide(None);
        assert_eq!(decision.is_granted(), granted);
        assert_eq!(server.command(&["GET", &key]), "3");
        let left = number(&server, &["PTTL", &key]);
        assert!(left > 0 && left <= 60_000, "{left} ms");
    }
}

/// I6: every key expires.
#[test]
fn every_key_expires() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&SIX));
    let consumer = of(&store, &policy, "c");
    let grant = consumer.take();
    consumer.decide(Some("id"));
    consumer.give_back(*grant.booking().unwrap(), true);
    of(&store, &policy, "once").take();
    let keys = server.command(&["KEYS", "*"]);
    let companions = keys.lines().filter(|key| key.starts_with("tollway:1:{s:c}:consumers:")).count();
    assert_eq!(companions, 3, "{keys}");
    for key in keys.lines() {
        let left = number(&server, &["PTTL", key]);
        assert!(left >= 0 || left == -2, "{key} lives {left} ms");
    }
    let month = number(&server, &["PTTL", "tollway:1:{s:c}:consumers:refunds"]);
    assert!(
        month > 29 * 86_400_000 && month <= 30 * 86_400_000 + 1,
        "as long as it could come twice: {month} ms"
    );
}

/// C3: a reset deletes the keys of the policy's periods; under a policy that forgets, a period that became unlimited has no
/// counter after the next take.
#[test]
fn reset_and_forgotten_counters_are_deleted() {
    let server = RedisServer::start();
    let (store, six, some) = (open(&server), policy(&SIX), policy(&SIX[1..3]));
    of(&store, &six, "c").take();
    assert_eq!(of(&store, &some, "c").apply(Action::Reset).unwrap(), Outcome::Reset);
    assert_eq!(server.command(&["EXISTS", "c_PER_MINUTE", "c_PER_HOUR"]), "0");
    assert_eq!(of(&store, &six, "c").used()[3..], [1, 1, 1]);
    of(&store, &some, "c").take();
    assert_eq!(of(&store, &six, "c").used()[1..], [1, 1, 1, 1, 1]);
    let forgetful = some.with_forgetting(true);
    assert_eq!(of(&store, &forgetful, "c").used(), [1, 1]);
    assert_eq!(of(&store, &six, "c").used()[3..], [1, 1, 1], "a peek deletes nothing");
    let no_room = policy(&["1 / minute from first call"]).with_forgetting(true);
    of(&store, &no_room, "c").denied();
    assert_eq!(of(&store, &six, "c").used()[3..], [1, 1, 1], "nor does a denial");
    of(&store, &forgetful, "c").take();
    assert_eq!(server.command(&["EXISTS", "c_PER_DAY", "c_PER_WEEK", "c_PER_MONTH"]), "0");
    assert_eq!(of(&store, &six, "c").used()[1..], [2, 2, 0, 0, 0]);
}

#[test]
fn unsupported_policies_are_refused_with_a_reason() {
    let server = RedisServer::start();
    let store = open(&server);
    let named = ["a: 5 / minute from first call", "b: 6 / minute from first call"];
    for (limits, why) in [
        (&["5 / minute"][..], "write `from first call`"),
        (&["5 / minute bucket"], "write `from first call`"),
        (&["5 concurrent"], "write `from first call`"),
        (&["5 / minute from first call", "7 tokens / day from first call"], "it counts tokens"),
        (&["5 / 2 minutes from first call"], "not for 2m"),
        (&named, "\"c_PER_MINUTE\" is counted by a limit of policy consumers already"),
    ] {
        let policy = policy(limits);
        let error = of(&store, &policy, "c").apply(Action::Take(terms(None))).unwrap_err();
        assert!(error.fault == Fault::Caller && error.message.contains(why), "{limits:?}: {error}");
    }
    let fits = minute(5);
    for (subject, why) in [("", "needs a subject"), ("a_PER_b", "contains \"_PER_\"")] {
        let error = of(&store, &fits, subject).apply(Action::Peek).unwrap_err();
        assert!(error.fault == Fault::Caller && error.message.contains(why), "{subject:?}: {error}");
    }
    for policy in [fits.clone().with_shadow(true), fits.clone().with_lease(Lease::Auto)] {
        assert_eq!(of(&store, &policy, "c").apply(Action::Peek).unwrap_err().fault, Fault::Caller);
    }
    let other = Policy::new("other", ["9 / minute from first call"]).unwrap();
    let both = |one, two| {
        let charges = [charge(one, "c"), charge(two, "c")].into_iter().collect();
        wait_for(store.apply(&[Operation { charges, action: Action::Take(terms(None)) }]))
    };
    let error = both(&fits, &other).unwrap_err();
    assert!(error.message.contains("policy other: the limit requests_per_minute"), "{error}");
    assert!(matches!(both(&fits, &fits).unwrap()[0], Outcome::Refused(Refusal::SameChargeTwice { .. })));
    let above = of(&store, &fits, "c").costing(6).apply(Action::Take(terms(None))).unwrap();
    assert!(matches!(above, Outcome::Refused(Refusal::AboveLimit { cost: 6, .. })));
    assert_eq!(server.command(&["DBSIZE"]), "0");
    // An unreachable server refuses nothing: a probe must not take it for reachable.
    server.kill();
    let store = RedisStore::open(&format!("{}?layout=consumers", server.url())).unwrap();
    assert_eq!(of(&store, &fits, "").apply(Action::Peek).unwrap_err().fault, Fault::Network);
}

/// A Cluster keeps the keys of one consumer apart, and keys do not expire by a test's clock.
#[test]
fn unsupported_servers_are_refused_when_opened() {
    let error = RedisStore::open("redis+cluster://127.0.0.1?layout=consumers").err().unwrap();
    assert!(error.fault == Fault::Caller && error.message.contains("Cluster"), "{error}");
    let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
    let error = RedisStore::with_test_clock("redis://127.0.0.1?layout=consumers", clock).err().unwrap();
    assert!(error.message.contains("clock"), "{error}");
}

/// `PEXPIRETIME` came with Redis 7.0: a store on an older one does not start, and says so.
#[test]
fn redis_6_2_is_refused_when_opened() {
    let old = RedisServer::start_6_2();
    let error = RedisStore::open(&format!("{}/0?layout=consumers&deadline=20s", old.url())).err().unwrap();
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
    assert!(error.message.contains("6.2.") && error.message.contains("7.0"), "{error}");
    // Our own layout needs no newer server.
    let store = RedisStore::open(&format!("{}/0?deadline=20s", old.url())).unwrap();
    of(&store, &minute(5), "c").take();
}

/// A server that is replaced by an older one, or comes late and is older, fails every operation as a store.
#[test]
fn redis_6_2_is_refused_on_a_new_connection() {
    let mut server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    of(&store, &policy, "c").take();
    server.kill();
    let late = open(&server);
    server.downgrade();
    for store in [&store, &late] {
        for _ in 0..2 {
            let error = of(store, &policy, "c").apply(Action::Take(terms(None))).unwrap_err();
            assert_eq!(error.fault, Fault::Store, "{error}");
            assert!(error.message.contains("6.2.") && error.message.contains("7.0"), "{error}");
        }
        let probe = of(store, &policy, "").apply(Action::Peek).unwrap_err();
        assert_eq!(probe.fault, Fault::Store, "a policy that does not fit is no sign of life: {probe}");
    }
    assert_eq!(server.command(&["DBSIZE"]), "0");
}
