//! The state of consumer limits and of Redis.

use serde_json::json;
use tollway_testkit::servers::RedisServer;

use super::bank::{Bank, Place, banks};
use crate::running::Running;

const INFO: &str = "/obp/v3.1.0/management/rate-limiting";

/// C8: the documented response, with the actual store.
#[test]
fn rate_limiting_state_is_shown() {
    for (mut bank, technology) in banks("").into_iter().zip(["MEMORY", "REDIS"]) {
        let expected = json!({
            "enabled": true, "technology": technology, "service_available": true, "currently_active": true,
        });
        assert_eq!(bank.manage("GET", INFO, "").json(), expected);
    }
    let mut off = Bank::at(Place::memory(), "enabled = false", "");
    let info = off.manage("GET", INFO, "").json();
    assert_eq!((&info["enabled"], &info["currently_active"]), (&json!(false), &json!(false)));
}

/// C8: `/health/redis` shows the address of Redis with a read token, and never its password.
#[test]
fn redis_health_never_shows_the_password() {
    let redis = RedisServer::start_with(&["--requirepass", "hush-hush"]);
    let server = Running::of(&format!("[store]\nurl = \"{}\"", redis.url()));
    let health = server.admin().get("/health/redis", "");
    let expected = json!({"redis_ready": true, "url": "127.0.0.1", "port": redis.port()});
    assert_eq!((health.status, health.json()), (200, expected));
    redis.kill();
    let health = server.admin().get("/health/redis", "");
    assert_eq!((health.status, &health.json()["redis_ready"]), (200, &json!(false)));
    assert!(!health.body.contains("hush"), "{health:?}");
}

/// C8: without a token, probes see whether Redis answers but not its address, and the result is cached.
#[test]
fn redis_health_without_a_token_is_cached_and_has_no_address() {
    let mut bank = Bank::at(Place::redis(), "", "");
    let full = bank.manage("GET", "/health/redis", "").json();
    let expected = json!({"redis_ready": true, "url": "127.0.0.1", "port": bank.redis().port()});
    assert_eq!(full, expected);
    let scripts = |bank: &Bank| -> u64 {
        let stats = bank.redis().command(&["INFO", "commandstats"]);
        let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls.filter_map(|line| line.split(',').next()?.parse::<u64>().ok()).sum()
    };
    let before = scripts(&bank);
    let mut probe = bank.running.admin();
    for token in ["", "authorization: Bearer an-unknown-token\r\n"].repeat(100) {
        let health = probe.get("/health/redis", token);
        assert_eq!((health.status, health.json()), (200, json!({"redis_ready": true})));
    }
    let asked = scripts(&bank) - before;
    assert!((1..100).contains(&asked), "{asked} times for 200 probes");
}

/// C8: health checks write nothing to Redis.
#[test]
fn health_checks_write_nothing_to_redis() {
    let mut bank = Bank::at(Place::redis(), "", "");
    bank.manage("GET", "/health/redis", "");
    bank.manage("GET", INFO, "");
    assert_eq!(bank.redis().command(&["KEYS", "*_PER_*"]), "");
}

/// Without Redis or consumers, the error says so and how to configure them.
#[test]
fn missing_redis_or_consumers_is_explained() {
    let server = Running::of("[policies.api]\nlimits = [\"5 / hour\"]");
    for (path, kind, word) in [
        ("/health/redis", "urn:tollway:no-redis", "MEMORY"),
        (INFO, "urn:tollway:no-consumers", "[consumers]"),
        ("/obp/v6.0.0/management/consumers/c/blocked", "urn:tollway:no-consumers", "[consumers]"),
    ] {
        let answer = server.admin().get(path, "");
        assert_eq!((answer.status, &answer.json()["type"]), (404, &json!(kind)));
        assert!(answer.body.contains(word), "{answer:?}");
    }
}
