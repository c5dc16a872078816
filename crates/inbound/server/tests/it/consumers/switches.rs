//! The blocked flag, the master switch and the default limits.

use serde_json::json;
use tollway::core::{Period, Span};

use super::bank::{Bank, CONSUMERS, Place, UNLIMITED, banks, only, record, told};

/// C3: a blocked consumer is denied whatever its limits, and its calls are not counted.
#[test]
fn blocked_consumer_is_denied_and_not_counted() {
    for mut bank in banks("") {
        bank.record("c", only(Period::Hour, 10));
        let path = format!("{CONSUMERS}/c/blocked");
        assert_eq!(bank.look("c", "blocked"), json!({"blocked": false}));
        let set = bank.manage("PUT", &path, r#"{"blocked": true}"#);
        assert_eq!((set.status, set.json()), (200, json!({"blocked": true})));
        assert_eq!(bank.look("c", "blocked"), json!({"blocked": true}));
        let refused = bank.call("c");
        assert_eq!((refused.status, &refused.json()["type"]), (403, &json!("urn:tollway:blocked")));
        assert_eq!(bank.look("c", "call-counters"), json!({"call_counters": {}}));
        assert_eq!(bank.call("another").status, 200);
        bank.manage("PUT", &path, r#"{"blocked": false}"#);
        assert_eq!(told(&bank.call("c")).unwrap()[0..2], [10, 9]);
    }
}

/// C6: with the master switch off no call is limited or counted, and records can still be managed.
#[test]
fn disabled_consumers_are_not_limited() {
    for mut bank in banks("enabled = false\nanonymous_per_hour = 1") {
        bank.record("c", only(Period::Hour, 1));
        for _ in 0..3 {
            let answer = bank.call("c");
            assert_eq!((answer.status, told(&answer)), (200, None));
            assert_eq!(bank.call_with("").status, 200);
        }
        let limits = bank.look("c", "consumer/call-limits");
        assert_eq!((&limits["per_hour_call_limit"], &limits["redis_call_limit"]), (&json!("1"), &json!({})));
    }
}

/// C3: without a record the defaults of the config apply; a record replaces them, even one without limits.
#[test]
fn defaults_apply_without_records() {
    for mut bank in banks("per_minute = 2\nper_day = 100") {
        assert_eq!(bank.calls("c", 3), [200, 200, 429]);
        let active = bank.look("c", "active-rate-limits");
        assert_eq!(active["considered_rate_limit_ids"], json!([]));
        assert_eq!(active["active_per_minute_rate_limit"], 2);
        let id = bank.record("c", only(Period::Minute, 4));
        assert_eq!(bank.calls("c", 3), [200, 200, 429], "what was used stays used");
        bank.change("c", &id, UNLIMITED);
        assert_eq!(bank.calls("c", 3), [200; 3]);
        let path = format!("{CONSUMERS}/c/consumer/rate-limits/{id}");
        assert_eq!(bank.manage("DELETE", &path, "").status, 204);
        assert_eq!(bank.calls("c", 3), [200, 200, 429], "the defaults again");
    }
}

/// C3: a record applies in every hour that it overlaps.
#[test]
fn record_applies_in_every_hour_it_overlaps() {
    let mut bank = Bank::at(Place::memory(), "per_hour = 7", "");
    let mut record = record(only(Period::Hour, 3));
    record["from_date"] = "2026-06-01T13:30:00Z".into();
    record["to_date"] = "2026-06-01T14:10:00Z".into();
    bank.record_of("c", &record);
    for (hour, limit) in [(12, 7), (13, 3), (14, 3), (15, 7)] {
        let active = bank.look("c", &format!("active-rate-limits/2026-06-01-{hour}"));
        assert_eq!(active["active_per_hour_rate_limit"], limit, "asked for hour {hour}");
        assert_eq!(active["active_at_date"], format!("2026-06-01T{hour}:00:00Z"));
        assert_eq!(told(&bank.call("c")).unwrap()[0], limit, "enforced in hour {hour}");
        assert_eq!(bank.look("c", "active-rate-limits"), active);
        bank.advance(Span::from_hours(1));
    }
}
