//! Invalid requests get a clear error and change nothing.

use serde_json::{Value, json};

use super::bank::{Bank, CONSUMERS, Place, record};

const GOOD: [i64; 6] = [-1, 100, -1, -1, -1, -1];
const UNKNOWN_RECORD: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// A valid record with one wrong field; `null` removes it.
fn with(field: &str, value: Value) -> String {
    let mut wrong = record(GOOD);
    wrong["api_name"] = "another".into();
    match value {
        Value::Null => drop(wrong.as_object_mut().unwrap().remove(field)),
        value => wrong[field] = value,
    }
    wrong.to_string()
}

/// C8: invalid dates, numbers, ranges and fields, each with a part of the expected message.
fn wrong_records() -> Vec<(String, &'static str)> {
    vec![
        (
            with("from_date", json!("2026-02-30T00:00:00Z")),
            "from_date: \\\"2026-02-30T00:00:00Z\\\" is not a date",
        ),
        (with("from_date", json!("2026-01-01")), "write it as 2025-01-01T00:00:00Z"),
        (with("to_date", json!("yesterday")), "to_date: "),
        (with("to_date", json!("9999-12-31T23:59:59-01:00")), "out of range"),
        (with("to_date", json!("2019-12-31T23:59:59Z")), "before it begins"),
        (with("from_date", json!(null)), "missing field `from_date`"),
        (with("from_date", json!(20260101)), "expected a string"),
        (with("per_minute_call_limit", json!("-2")), "per_minute_call_limit is -2: write -1"),
        (with("per_minute_call_limit", json!("ten")), "per_minute_call_limit is"),
        (with("per_minute_call_limit", json!(100)), "write a whole number as a text"),
        (with("per_minute_call_limit", json!(null)), "per_minute_call_limit is missing"),
        (with("per_month_call_limit", json!("1000000000000001")), "at most 1000000000000000"),
        (with("per_minut_call_limit", json!("5")), "\\\"per_minut_call_limit\\\" is not a field"),
        (with("consumer_id", json!("another")), "\\\"consumer_id\\\" is not a field"),
        (with("api_name", json!("")), "api_name is empty"),
        (with("bank_id", json!("x".repeat(256))), "bank_id has 256 bytes"),
        (with("bank_id", json!(7)), "expected a string"),
        (String::new(), "EOF"),
        ("[]".to_owned(), "expected a record as an object"),
        ("{\"from_date\": ".to_owned(), "EOF"),
    ]
}

/// C8: creating or changing a record with invalid fields fails and changes nothing.
#[test]
fn invalid_record_is_rejected_and_changes_nothing() {
    let mut bank = Bank::at(Place::memory(), "", "");
    bank.record("c", GOOD);
    let mut other = record(GOOD);
    other["bank_id"] = "rbs".into();
    let id = bank.record_of("c", &other);
    let path = format!("{CONSUMERS}/c/consumer/rate-limits");
    let before = bank.manage("GET", &path, "").body;
    for (wrong, word) in wrong_records() {
        for (method, path) in [("POST", path.clone()), ("PUT", format!("{path}/{id}"))] {
            let answer = bank.manage(method, &path, &wrong);
            assert_eq!(answer.status, 400, "{method} {wrong}: {answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(answer.body.contains(word), "{method} {wrong}: {}", answer.body);
        }
    }
    assert_eq!(bank.manage("GET", &path, "").body, before);
    assert_eq!(bank.look("c", "active-rate-limits")["active_per_minute_rate_limit"], 200);
}

/// C8: invalid ids and hours are 400, missing records 404.
#[test]
fn invalid_ids_are_400_and_missing_records_404() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let mine = bank.record("c", GOOD);
    let good = record(GOOD).to_string();
    for (method, path, status, word) in [
        ("PUT", format!("c/consumer/rate-limits/{UNKNOWN_RECORD}"), 404, "has no record"),
        ("DELETE", format!("c/consumer/rate-limits/{UNKNOWN_RECORD}"), 404, "has no record"),
        ("DELETE", format!("another/consumer/rate-limits/{mine}"), 404, "consumer another has no record"),
        ("PUT", format!("another/consumer/rate-limits/{mine}"), 404, "consumer another has no record"),
        ("DELETE", "c/consumer/rate-limits/7".to_owned(), 400, "is not the id of a record"),
        ("PUT", "c/consumer/rate-limits/..%2Fx".to_owned(), 400, "is not the id of a record"),
        ("GET", "c/active-rate-limits/2025-12-31T13:34:46Z".to_owned(), 400, "YYYY-MM-DD-HH"),
        ("GET", "c/active-rate-limits/2025-02-29-00".to_owned(), 400, "there is no hour"),
        ("GET", "c/active-rate-limits/1969-12-31-23".to_owned(), 400, "out of range"),
        ("GET", "a_PER_B/active-rate-limits".to_owned(), 400, "_PER_"),
        ("GET", "a%20b/consumer/call-limits".to_owned(), 400, "visible characters"),
        ("GET", "/consumer/call-limits".to_owned(), 400, "empty"),
        ("GET", "c/consumer/call-limit".to_owned(), 404, "there is no path"),
        ("POST", "c/active-rate-limits".to_owned(), 405, "GET"),
    ] {
        let answer = bank.manage(method, &format!("{CONSUMERS}/{path}"), &good);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.body.contains(word), "{method} {path}: {answer:?}");
    }
    let kept = bank.look("c", "consumer/rate-limits");
    assert_eq!(kept["limits"][0]["rate_limiting_id"], mine);
}

#[test]
fn blocked_flag_must_be_a_boolean() {
    let mut bank = Bank::at(Place::memory(), "", "");
    for wrong in ["", "{}", r#"{"blocked": "yes"}"#, r#"{"blocked": true, "until": "tomorrow"}"#, "true"] {
        let answer = bank.manage("PUT", &format!("{CONSUMERS}/c/blocked"), wrong);
        assert_eq!((answer.status, &answer.json()["type"]), (400, &json!("urn:tollway:bad-body")), "{wrong}");
    }
    assert_eq!(bank.look("c", "blocked"), json!({"blocked": false}));
}
