//! The documented `redis-cli` commands for operators, against a running server (C2).

use std::process::Command;

use tollway::core::Period;

use super::bank::{Bank, CONSUMERS, Place, is_whole, key, only};

const CONSUMER: &str = "consumer_abc123";

/// The output of `redis-cli` with these arguments.
fn redis_cli(bank: &Bank, words: &[&str]) -> Vec<String> {
    let port = bank.redis().port().to_string();
    let ran = Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(words).output();
    let ran = ran.expect("redis-cli is not installed (Debian: redis-tools)");
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn six_keys() -> Vec<String> {
    Period::ALL.map(|period| key(CONSUMER, period)).to_vec()
}

/// Runs a command on all six keys.
fn of_all(bank: &Bank, word: &str) -> Vec<String> {
    let keys = six_keys();
    let words: Vec<&str> = [word].into_iter().chain(keys.iter().map(String::as_str)).collect();
    redis_cli(bank, &words)
}

/// A server after this many calls of one consumer; the counter of the second does not expire during the test.
fn bank_after(calls: usize) -> Bank {
    let mut bank = Bank::at(Place::redis(), "", "");
    bank.record(CONSUMER, [10, 100, 1_000, 10_000, 50_000, 200_000]);
    bank.first_call_in_a_long_second(CONSUMER);
    assert_eq!(bank.calls(CONSUMER, calls - 1), vec![200; calls - 1]);
    bank
}

/// C2: KEYS, GET, TTL and MGET show the counters under the documented keys.
#[test]
fn redis_cli_reads_the_counters() {
    let mut bank = bank_after(3);
    bank.call_with("");
    let mut all = six_keys();
    all.push("127.0.0.1_PER_HOUR".to_owned());
    all.sort();
    assert_eq!(sorted(redis_cli(&bank, &["KEYS", "*_PER_*"])), all, "and with `wc -l` there are 7");
    assert_eq!(sorted(redis_cli(&bank, &["KEYS", "consumer_abc123_*"])), sorted(six_keys()));
    assert_eq!(redis_cli(&bank, &["GET", "consumer_abc123_PER_MINUTE"]), ["3"]);
    assert_eq!(of_all(&bank, "MGET"), ["3"; 6]);
    let ttl: u64 = redis_cli(&bank, &["TTL", "consumer_abc123_PER_MINUTE"])[0].parse().unwrap();
    assert!((1..=60).contains(&ttl), "{ttl}");
}

/// C2: every counter expires with its period, and all other keys of a consumer expire, too.
#[test]
fn every_key_has_a_ttl() {
    let bank = bank_after(2);
    for pattern in ["*_PER_*", "tollway:1:{*"] {
        let keys = redis_cli(&bank, &["KEYS", pattern]);
        assert!(!keys.is_empty());
        for key in keys {
            // -1 means no expiry; -2 means it has just expired.
            assert_ne!(redis_cli(&bank, &["TTL", &key]), ["-1"], "{key}");
        }
    }
    for period in [Period::Minute, Period::Hour, Period::Day, Period::Week, Period::Month] {
        let left: u64 = redis_cli(&bank, &["TTL", &key(CONSUMER, period)])[0].parse().unwrap();
        assert!(is_whole(left, period), "{period}: {left}");
    }
}

/// C2: DEL of one counter resets that window, DEL of all six resets the consumer.
#[test]
fn deleted_counters_start_at_zero() {
    let mut bank = bank_after(4);
    assert_eq!(redis_cli(&bank, &["DEL", "consumer_abc123_PER_MINUTE"]), ["1"]);
    assert_eq!(bank.call(CONSUMER).status, 200);
    assert_eq!(of_all(&bank, "MGET"), ["5", "1", "5", "5", "5", "5"]);
    assert_eq!(of_all(&bank, "DEL"), ["6"]);
    assert_eq!(redis_cli(&bank, &["KEYS", "consumer_abc123_*"]), [""]);
    assert_eq!(bank.look(CONSUMER, "call-counters"), serde_json::json!({"call_counters": {}}));
    assert_eq!(bank.call(CONSUMER).status, 200);
    assert_eq!(redis_cli(&bank, &["GET", "consumer_abc123_PER_MONTH"]), ["1"]);
}

/// C2: INFO memory works (`one_command` uses MONITOR), and counts that other programs write are used.
#[test]
fn counts_from_other_programs_are_used() {
    let mut bank = bank_after(1);
    let info = redis_cli(&bank, &["INFO", "memory"]);
    assert!(info.iter().any(|line| line.starts_with("used_memory:")), "{info:?}");
    assert_eq!(redis_cli(&bank, &["INCR", "consumer_abc123_PER_MINUTE"]), ["2"]);
    redis_cli(&bank, &["SETEX", "consumer_abc123_PER_HOUR", "3600", "1000"]);
    let refused = bank.call(CONSUMER);
    assert_eq!((refused.status, &refused.json()["limit"]), (429, &"per_hour".into()));
    assert_eq!(bank.look(CONSUMER, "call-counters")["call_counters"]["per_minute"]["calls_made"], 2);
}

/// C2: the next call repairs a key without a TTL, the documented "counters not resetting".
#[test]
fn counter_without_ttl_is_repaired() {
    let mut bank = bank_after(1);
    redis_cli(&bank, &["PERSIST", "consumer_abc123_PER_MINUTE"]);
    assert_eq!(redis_cli(&bank, &["TTL", "consumer_abc123_PER_MINUTE"]), ["-1"]);
    bank.call(CONSUMER);
    let ttl: i64 = redis_cli(&bank, &["TTL", "consumer_abc123_PER_MINUTE"])[0].parse().unwrap();
    assert!((1..=60).contains(&ttl), "{ttl}");
}

/// A counter that holds no count, of whatever type, limits its consumer all the same; the administration reads and resets it.
#[test]
fn a_counter_without_a_count_is_replaced_or_reset() {
    let mut bank = Bank::at(Place::redis(), "", "");
    bank.record(CONSUMER, only(Period::Minute, 2));
    let counter = "consumer_abc123_PER_MINUTE";
    for words in [["SET", counter, "hello"], ["SET", counter, "-3"], ["RPUSH", counter, "1"]] {
        redis_cli(&bank, &["DEL", counter]);
        redis_cli(&bank, &words);
        assert_eq!(bank.calls(CONSUMER, 3), [200, 200, 429], "{words:?}");
        redis_cli(&bank, &["DEL", counter]);
        redis_cli(&bank, &words);
        assert_eq!(bank.look(CONSUMER, "call-counters"), serde_json::json!({"call_counters": {}}));
        let reset = bank.manage("DELETE", &format!("{CONSUMERS}/{CONSUMER}/call-counters"), "");
        assert_eq!(reset.status, 204, "{words:?}");
        assert_eq!(redis_cli(&bank, &["EXISTS", counter]), ["0"], "{words:?}");
    }
}
