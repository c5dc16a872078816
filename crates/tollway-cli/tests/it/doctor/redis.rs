//! What Redis tells: whether it answers, keys that never end, memory that runs out, and what is on its disk.

use tollway_testkit::servers::RedisServer;

use super::{codes, config, told};
use crate::home::Home;

fn home_at(redis: &RedisServer) -> Home {
    Home::with_config(&config(&format!("{}?layout=consumers", redis.url()), "per_minute = 100"))
}

/// The first of the document's common issues: is Redis reachable?
#[test]
fn finds_an_unreachable_store() {
    let redis = RedisServer::start_with(&["--requirepass", "secret", "--save", "60 1"]);
    let home = home_at(&redis);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    redis.kill();
    assert_eq!(codes(&home, &[]), ["store-unreachable"]);
    redis.restart();
    let wrong = redis.url().replace("secret", "guessed");
    home.write("tollway.toml", config(&wrong, "per_minute = 100"));
    assert_eq!(codes(&home, &[]), ["store-unreachable"]);
    let (_, text, _) = home.run(&["doctor"]);
    assert!(!text.contains("guessed") && text.contains("redis://...:...@127.0.0.1"), "{text}");
    // A store on the command line counts, with its password.
    let url = format!("{}?layout=consumers", redis.url());
    assert_eq!(codes(&home, &["--store", &url]), Vec::<String>::new());
}

/// The third and the fourth: counters that do not reset, and memory that grows with them. Nothing is changed.
#[test]
fn finds_counters_without_ttl() {
    let redis = RedisServer::start_with(&["--save", "60 1"]);
    let home = home_at(&redis);
    redis.command(&["SET", "abc_PER_MINUTE", "42"]);
    redis.command(&["SET", "o'neil b_PER_DAY", "42"]);
    redis.command(&["SET", "tollway:1:{s:abc}:consumers:ids", "x"]);
    redis.command(&["SET", "\u{1b}[2J_PER_WEEK", "42"]);
    redis.command(&["SETEX", "abc_PER_HOUR", "3600", "1"]);
    redis.command(&["HSET", "tollway:1:settings", "a", "b"]);
    redis.command(&["SET", "session_PER_USER", "somebody else's"]);
    let keys = redis.command(&["DBSIZE"]);
    assert_eq!(codes(&home, &[]), ["keys-without-ttl"]);
    let what = told(&home, &[], "keys-without-ttl", "what");
    assert!(what.starts_with("4 counters in Redis have no TTL: "), "{what}");
    assert!(!what.contains("session_PER_USER") && !what.contains("PER_HOUR"), "{what}");
    assert_eq!(
        (redis.command(&["DBSIZE"]), redis.command(&["TTL", "abc_PER_MINUTE"])),
        (keys, "-1".to_owned())
    );
    // The fix is a command that runs unchanged.
    let fix = told(&home, &[], "keys-without-ttl", "fix");
    let command = fix.split_once("redis-cli").unwrap().1;
    let command = format!("redis-cli -p {}{command}", redis.port());
    let done = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "3", "{command}");
    // A key with control characters is escaped, and left out of the command.
    let what = told(&home, &[], "keys-without-ttl", "what");
    assert_eq!(what, "1 counter in Redis has no TTL: \\u{1b}[2J_PER_WEEK");
    assert!(told(&home, &[], "keys-without-ttl", "fix").contains("their names need a program"));
    redis.command(&["DEL", "\u{1b}[2J_PER_WEEK"]);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// The same of keys under a prefix, behind a password, with more than are named.
#[test]
fn finds_tollway_keys_without_ttl() {
    let redis = RedisServer::start_with(&["--save", "60 1", "--requirepass", "secret"]);
    let url = format!("{}/3?prefix=%7Bone%7D*:", redis.url());
    let home = Home::with_config(&format!("[store]\nurl = \"{url}\"\n"));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    let (exit, ..) = home.run(&["take", "api", "--limit", "2 requests / minute", "--subject", "anna"]);
    assert_eq!((exit, codes(&home, &[])), (0, Vec::new()), "expiring counters are fine");
    let script = "redis.call('SELECT', 3) for i = 1, 2500 do redis.call('SET', '{one}*:1:{s:' .. i .. '}:api', 'x') end";
    redis.command(&["EVAL", script, "0"]);
    let what = told(&home, &[], "keys-without-ttl", "what");
    assert!(what.starts_with("2,500 counters") && what.ends_with(", ..."), "{what}");
    redis.command(&["FLUSHALL"]);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// The fourth of the document's common issues, and design: memory that is full or that forgets.
#[test]
fn finds_eviction_and_full_memory() {
    let redis = RedisServer::start_with(&["--save", "60 1"]);
    let home = home_at(&redis);
    let set = |name: &str, value: &str| assert_eq!(redis.command(&["CONFIG", "SET", name, value]), "OK");
    set("maxmemory-policy", "allkeys-lru");
    assert_eq!(codes(&home, &[]), ["(evicts)"]);
    set("maxmemory", "1gb");
    assert_eq!(codes(&home, &[]), ["evicts"]);
    set("maxmemory-policy", "noeviction");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    let used = redis.command(&["INFO", "memory"]);
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim();
    set("maxmemory", used);
    assert_eq!(codes(&home, &[]), ["memory-full"]);
    set("maxmemory", "0");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

#[test]
fn finds_missing_persistence_for_long_limits() {
    let redis = RedisServer::start();
    let url = redis.url();
    let home = Home::new();
    let policy = |limit: &str| {
        format!(
            "[store]\nurl = \"{url}\"\n[policies.api]\nlimits = [\"{limit}\"]\n[apis.a]\nbase_url = \"https://a.example\"\npolicy = \"api\"\n"
        )
    };
    home.write("tollway.toml", policy("5 requests / minute"));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    home.write("tollway.toml", policy("5 requests / week"));
    assert_eq!(codes(&home, &[]), ["(not-on-disk)"]);
    assert_eq!(redis.command(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// A policy is used if something names it, or if it has a meter.
#[test]
fn notes_an_unused_policy() {
    let redis = RedisServer::start();
    let home = Home::with_config(&format!(
        "[store]\nurl = \"{}\"\n[policies.used]\nlimits = [\"5 / minute\"]\n[policies.odd]\nlimits = [\"5 / minute\"]\n",
        redis.url()
    ));
    assert_eq!(home.run(&["take", "used"]).0, 0);
    assert_eq!(codes(&home, &[]), ["(unused-policy)"]);
    assert!(told(&home, &[], "unused-policy", "what").ends_with(": odd"));
    assert_eq!(home.run(&["take", "odd"]).0, 0);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// Without permission to SCAN, there is a note.
#[test]
fn notes_an_incomplete_scan() {
    let redis = RedisServer::start();
    let allowed = ["ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "-scan"];
    assert_eq!(redis.command(&allowed), "OK");
    let url = redis.url().replace("redis://", "redis://limited:x@");
    let home = Home::with_config(&format!("[store]\nurl = \"{url}\"\n"));
    assert_eq!(codes(&home, &[]), ["(keys-not-all-seen)"]);
    assert_eq!(redis.command(&["ACL", "SETUSER", "limited", "+scan"]), "OK");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}
