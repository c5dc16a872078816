//! Redis fails and recovers.

use serde_json::json;
use tollway::core::Period;

use super::bank::{Bank, CONSUMERS, Place, Plan, only, told, until};
use crate::log::Log;

const INFO: &str = "/obp/v3.1.0/management/rate-limiting";

fn bank(consumers: &str, log: &Log) -> Bank {
    // The default timeout of the store.
    let (deadline, log) = ("500ms", Some(log.clone()));
    let mut bank = Plan { consumers, deadline, log, ..Plan::at(Place::redis()) }.start();
    bank.record("c", only(Period::Hour, 1));
    assert_eq!(bank.calls("c", 2), [200, 429]);
    bank
}

/// C7: without Redis the API stays up and the log reports it, but for a consumer that is known to have used up its limit;
/// limits apply again once Redis is back.
#[test]
fn consumers_are_granted_while_redis_is_down() {
    let log = Log::default();
    let mut bank = bank("", &log);
    bank.record("d", only(Period::Hour, 100));
    bank.redis().kill();
    for _ in 0..5 {
        assert_eq!((bank.call("c").status, bank.call("d").status), (429, 200));
        assert_eq!(bank.call_with("").status, 200);
    }
    until("the log names Redis", || log.text().contains("Redis issue: "));
    let info = bank.manage("GET", INFO, "").json();
    let expected = json!({
        "enabled": true, "technology": "REDIS", "service_available": false, "currently_active": false,
    });
    assert_eq!(info, expected);
    assert_eq!(bank.manage("GET", "/health/redis", "").json()["redis_ready"], false);
    let limits = bank.manage("GET", &format!("{CONSUMERS}/c/consumer/call-limits"), "");
    assert_eq!((limits.status, &limits.json()["type"]), (503, &json!("urn:tollway:store-unavailable")));
    let active = bank.look("c", "active-rate-limits");
    assert_eq!(active["active_per_hour_rate_limit"], 1, "records are not in Redis");

    bank.redis().restart();
    until("calls are counted again", || told(&bank.call("d")).is_some());
    until("the limit holds again", || bank.call("c").status == 429);
    until("the log says so", || log.text().contains("the store is back"));
    assert_eq!(bank.manage("GET", INFO, "").json()["currently_active"], true);
}

/// C7: `closed` returns a 503 with `Retry-After`.
#[test]
fn closed_policy_returns_503_while_redis_is_down() {
    let mut bank = bank("when_store_fails = \"closed\"", &Log::default());
    bank.redis().kill();
    for headers in ["x-consumer-id: c\r\n", ""] {
        let refused = bank.call_with(headers);
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["type"], "urn:tollway:store-unavailable");
        assert!(refused.header("retry-after").is_some());
    }
    bank.redis().restart();
    until("the store decides again", || bank.call("c").status == 200);
}

/// C7: with `local`, each server grants a tenth of every limit.
#[test]
fn local_policy_grants_a_tenth_while_redis_is_down() {
    let mut bank = bank("when_store_fails = \"local\"", &Log::default());
    bank.record("local", only(Period::Hour, 100));
    assert_eq!(told(&bank.call("local")).unwrap()[0..2], [100, 99]);
    bank.redis().kill();
    assert_eq!(bank.calls("local", 12), [[200; 9].as_slice(), &[429; 3]].concat(), "a tenth of 99");
}
