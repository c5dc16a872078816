//! Records: create, list, change and delete, and the limits in force.

use serde_json::json;
use tollway::core::Span;

use super::bank::{BEGIN, Bank, CONSUMERS, Place, UNLIMITED, banks, record};

const DOCUMENTED: [i64; 6] = [10, 100, 1_000, 10_000, 50_000, 200_000];

/// C8: the whole life of a record, with limits as strings.
#[test]
fn record_is_created_listed_changed_and_deleted() {
    for mut bank in banks("") {
        let path = format!("{CONSUMERS}/c/consumer/rate-limits");
        assert_eq!(bank.manage("GET", &path, "").json(), json!({"limits": []}));
        let mut body = record(DOCUMENTED);
        body["from_date"] = "2026-01-01T01:00:00+01:00".into();
        body["api_name"] = "getAccounts".into();
        body["api_version"] = "v6.0.0".into();
        let made = bank.manage("POST", &path, &body.to_string());
        assert_eq!(made.status, 201);
        let made = made.json();
        let id = made["rate_limiting_id"].as_str().unwrap().to_owned();
        let expected = json!({
            "rate_limiting_id": id, "from_date": "2026-01-01T00:00:00Z", "to_date": "2099-12-31T23:59:59Z",
            "api_version": "v6.0.0", "api_name": "getAccounts", "bank_id": null,
            "per_second_call_limit": "10", "per_minute_call_limit": "100", "per_hour_call_limit": "1000",
            "per_day_call_limit": "10000", "per_week_call_limit": "50000", "per_month_call_limit": "200000",
            "created_at": made["created_at"], "updated_at": made["created_at"],
        });
        assert_eq!(made, expected);
        assert_eq!(bank.manage("GET", &path, "").json(), json!({"limits": [expected]}));

        let one = format!("{path}/{id}");
        let changed = bank.manage("PUT", &one, &record(UNLIMITED).to_string());
        assert_eq!((changed.status, &changed.json()["rate_limiting_id"]), (200, &json!(id)));
        assert_eq!(changed.json()["per_second_call_limit"], "-1");
        assert_eq!(changed.json()["api_name"], json!(null), "all of it is replaced");
        assert_eq!(changed.json()["created_at"], made["created_at"]);

        let deleted = bank.manage("DELETE", &one, "");
        assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
        assert_eq!(bank.manage("GET", &path, "").json(), json!({"limits": []}));
        assert_eq!(bank.manage("DELETE", &one, "").status, 404);
    }
}

/// C8: exactly the documented response; a period whose window has ended is left out.
#[test]
fn call_limits_are_shown_with_counters() {
    let mut bank = Bank::at(Place::memory(), "", "");
    bank.record("c", DOCUMENTED);
    assert_eq!(bank.calls("c", 5), [200; 5]);
    bank.advance(Span::from_secs(23));
    let counter = |seconds: u64| json!({"calls_made": 5, "reset_in_seconds": seconds});
    let expected = json!({
        "per_second_call_limit": "10", "per_minute_call_limit": "100", "per_hour_call_limit": "1000",
        "per_day_call_limit": "10000", "per_week_call_limit": "50000", "per_month_call_limit": "200000",
        "redis_call_limit": {
            "per_minute": counter(37), "per_hour": counter(3_577), "per_day": counter(86_377),
            "per_week": counter(604_777), "per_month": counter(2_591_977),
        },
    });
    assert_eq!(bank.look("c", "consumer/call-limits"), expected);
}

/// C8: only periods with a limit have a counter.
#[test]
fn a_consumer_without_limits_has_no_counters() {
    for mut bank in banks("") {
        bank.call("c");
        let limits = bank.look("c", "consumer/call-limits");
        assert_eq!(
            limits,
            json!({
                "per_second_call_limit": "-1", "per_minute_call_limit": "-1", "per_hour_call_limit": "-1",
                "per_day_call_limit": "-1", "per_week_call_limit": "-1", "per_month_call_limit": "-1",
                "redis_call_limit": {},
            })
        );
    }
}

/// C8: the limits in force in an hour: record ids, the start of the hour, and six numbers.
#[test]
fn active_limits_are_shown_for_now_and_for_an_hour() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let id = bank.record("c", [10, 100, 0, -1, -1, 200_000]);
    let expected = |hour: &str| {
        json!({
            "considered_rate_limit_ids": [id], "active_at_date": hour,
            "active_per_second_rate_limit": 10, "active_per_minute_rate_limit": 100,
            "active_per_hour_rate_limit": -1, "active_per_day_rate_limit": -1,
            "active_per_week_rate_limit": -1, "active_per_month_rate_limit": 200_000,
        })
    };
    assert_eq!(bank.look("c", "active-rate-limits"), expected(BEGIN));
    let earlier = bank.look("c", "active-rate-limits/2025-12-31-13");
    assert_eq!(earlier, expected("2025-12-31T13:00:00Z"));
    let before = bank.look("c", "active-rate-limits/2019-12-31-23");
    assert_eq!(before["considered_rate_limit_ids"], json!([]));
    assert_eq!(before["active_per_second_rate_limit"], -1);
}

/// An id may contain characters that have a meaning in URLs.
#[test]
fn ids_are_escaped_in_paths() {
    let mut bank = Bank::at(Place::memory(), "", "");
    bank.record("a%2Fb%3F%C3%BC", [-1, -1, 5, -1, -1, -1]);
    assert_eq!(bank.look("a%2Fb%3F%C3%BC", "consumer/rate-limits")["limits"].as_array().unwrap().len(), 1);
    let answer = bank.call_with("x-consumer-id: a/b?ü\r\n");
    assert_eq!(answer.header("x-rate-limit-limit"), Some("5"));
}
