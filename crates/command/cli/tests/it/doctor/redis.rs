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
    let fix = told(&home, &[], "store-unreachable", "fix");
    assert!(fix.contains(&format!("redis-cli -h 127.0.0.1 -p {} -n 0 PING", redis.port())), "{fix}");
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
    redis.command(&["SET", "session_PER_USER", "of another program"]);
    let keys = redis.command(&["DBSIZE"]);
    assert_eq!(codes(&home, &[]), ["keys-without-ttl"]);
    let what = told(&home, &[], "keys-without-ttl", "what");
    assert!(what.starts_with("4 counters in Redis have no TTL: "), "{what}");
    assert!(!what.contains("session_PER_USER") && !what.contains("PER_HOUR"), "{what}");
    assert_eq!(
        (redis.command(&["DBSIZE"]), redis.command(&["TTL", "abc_PER_MINUTE"])),
        (keys, "-1".to_owned())
    );
    // A key with control characters is escaped, and not part of a command.
    redis.command(&["DEL", "abc_PER_MINUTE", "o'neil b_PER_DAY", "tollway:1:{s:abc}:consumers:ids"]);
    let what = told(&home, &[], "keys-without-ttl", "what");
    assert_eq!(what, "1 counter in Redis has no TTL: \\u{1b}[2J_PER_WEEK");
    assert_eq!(run_fix(&told(&home, &[], "keys-without-ttl", "fix"), ""), "1");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    // A few keys are named in the command.
    redis.command(&["SET", "abc_PER_MINUTE", "42"]);
    redis.command(&["SET", "o'neil b_PER_DAY", "42"]);
    let fix = told(&home, &[], "keys-without-ttl", "fix");
    assert!(fix.contains(&format!("redis-cli -h 127.0.0.1 -p {} -n 0 DEL ", redis.port())), "{fix}");
    assert_eq!(run_fix(&fix, ""), "2");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// Runs the commands of a fix unchanged, with the password that it asks for, and returns their output.
fn run_fix(fix: &str, password: &str) -> String {
    let command = &fix[fix.find("redis-cli -h").unwrap_or_else(|| panic!("no command in {fix}"))..];
    let mut shell = std::process::Command::new("sh");
    if !password.is_empty() {
        shell.env("REDISCLI_AUTH", password);
    }
    let done = shell.args(["-c", command]).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{command}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Counters that hold no count: each kind of value is found, whether it expires or not, and the fix deletes all of them.
#[test]
fn finds_counters_without_a_count() {
    let redis = RedisServer::start_with(&["--save", "60 1"]);
    let home = home_at(&redis);
    for (number, value) in
        ["hello", "", "-3", "1.5", "007", "9007199254740992", "100000000000000000000"].iter().enumerate()
    {
        redis.command(&["SET", &format!("c{number}_PER_MINUTE"), value, "EX", "3600"]);
    }
    redis.command(&["SET", "good_PER_MINUTE", "0", "EX", "3600"]);
    redis.command(&["SET", "large_PER_MINUTE", "9007199254740991", "EX", "3600"]);
    redis.command(&["SET", "session_PER_USER", "hello", "EX", "3600"]);
    assert_eq!(codes(&home, &[]), ["keys-without-count"]);
    for (words, what) in [
        (["RPUSH", "list_PER_DAY", "1", "2"], "8 counters"),
        (["HSET", "hash_PER_DAY", "a", "1"], "9 counters"),
    ] {
        redis.command(&words);
        redis.command(&["EXPIRE", words[1], "3600"]);
        let told = told(&home, &[], "keys-without-count", "what");
        assert!(told.starts_with(what), "{told}");
    }
    redis.command(&["SET", "endless_PER_HOUR", "hello"]);
    assert_eq!(codes(&home, &[]), ["keys-without-count", "keys-without-ttl"]);
    assert_eq!(run_fix(&told(&home, &[], "keys-without-count", "fix"), ""), "10");
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    assert_eq!(redis.command(&["DBSIZE"]), "3");
    // In another layout, such keys belong to other programs.
    redis.command(&["SET", "abc_PER_MINUTE", "hello", "EX", "3600"]);
    assert_eq!(run_fix(&told(&home, &[], "keys-without-count", "fix"), ""), "1");
    redis.command(&["SET", "abc_PER_MINUTE", "hello", "EX", "3600"]);
    home.write("tollway.toml", config(&redis.url(), "per_minute = 100"));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// A take replaces a counter that holds no count, and a warning names it.
#[test]
fn broken_counter_is_replaced_with_a_warning() {
    let redis = RedisServer::start();
    let home =
        Home::with_config(&format!("[store]\nurl = \"{}?layout=consumers&deadline=20s\"\n", redis.url()));
    redis.command(&["SET", "abc_PER_MINUTE", "hello"]);
    let take = ["take", "api", "--limit", "2 / minute from first call", "-s", "abc", "--max-wait", "0"];
    let (exit, _, beside) = home.run(&take);
    assert!(exit == 0 && beside.contains("abc_PER_MINUTE") && beside.contains("held no count"), "{beside}");
    assert_eq!(redis.command(&["GET", "abc_PER_MINUTE"]), "1");
    let (exit, _, beside) = home.run(&take);
    assert_eq!((exit, beside.as_str()), (0, ""), "the second take finds a count");
    assert_eq!(home.run(&take).0, 75);
}

/// Redis 6.2 lacks a command of the layout: commands and the server do not start, and `doctor` names both versions.
#[test]
fn finds_a_redis_that_is_too_old() {
    let redis = RedisServer::start_6_2();
    let home = home_at(&redis);
    assert_eq!(codes(&home, &[]), ["store-unusable"]);
    let what = told(&home, &[], "store-unusable", "what");
    assert!(what.contains("6.2.") && what.contains("7.0"), "{what}");
    let take = ["take", "api", "--limit", "2 / minute from first call", "-s", "abc"];
    for arguments in [&take[..], &["serve", "--listen", "127.0.0.1:0"]] {
        let (exit, _, beside) = home.run(arguments);
        assert!(exit == 69 && beside.contains("6.2.") && beside.contains("7.0"), "{exit}: {beside}");
    }
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
    // The fix reaches the database, finds all of them, and leaves set limits and keys that expire.
    let script = "redis.call('SELECT', 3) redis.call('HSET', '{one}*:1:settings', 'a', 'b') \
        for i = 1, 2500 do redis.call('SET', i .. '_PER_DAY', '1') end return redis.call('DBSIZE')";
    let keys: u64 = redis.command(&["EVAL", script, "0"]).parse().unwrap();
    let fix = told(&home, &[], "keys-without-ttl", "fix");
    assert!(fix.contains(&format!("-p {} -n 3 ", redis.port())) && !fix.contains("secret"), "{fix}");
    let deleted = run_fix(&fix, "secret").lines().map(|line| line.parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!(deleted, 5_000);
    let script = "redis.call('SELECT', 3) return redis.call('DBSIZE')";
    assert_eq!(redis.command(&["EVAL", script, "0"]), (keys - 5_000).to_string());
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
    let fix = told(&home, &[], "evicts", "fix");
    let command =
        format!("redis-cli -h 127.0.0.1 -p {} -n 0 CONFIG SET maxmemory-policy noeviction", redis.port());
    assert!(fix.starts_with(&command), "{fix}");
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
