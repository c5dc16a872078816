//! The neutral API: the same records, limits and counters, with numbers as numbers.

use serde_json::{Value, json};
use tollway::core::{Period, Span};

use super::bank::{BEGIN, Bank, Place, banks, is_whole, told};

const V1: &str = "/v1/consumers";
const NONE: &str = r#"{"limits": {}}"#;
const UNKNOWN_RECORD: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

fn read(bank: &mut Bank, path: &str) -> Value {
    let answer = bank.manage("GET", &format!("{V1}/{path}"), "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// Creates a record with these limits and returns it.
fn create(bank: &mut Bank, consumer: &str, limits: &Value) -> Value {
    let made =
        bank.manage("POST", &format!("{V1}/{consumer}/records"), &json!({"limits": limits}).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

/// C8: the whole life of a record.
#[test]
fn record_is_created_listed_replaced_and_deleted() {
    for mut bank in banks("") {
        let path = format!("{V1}/c/records");
        assert_eq!(read(&mut bank, "c/records"), json!({"consumer_id": "c", "records": []}));
        let body = json!({
            "from": "2026-01-01T01:00:00+01:00", "to": "2099-12-31T23:59:59Z",
            "limits": {"per_minute": 100, "per_hour": null, "per_month": 200_000},
            "scope": {"api_name": "getAccounts"},
        });
        let made = bank.manage("POST", &path, &body.to_string());
        assert_eq!(made.status, 201, "{made:?}");
        let made = made.json();
        let id = made["id"].as_str().unwrap().to_owned();
        let expected = json!({
            "id": id, "from": "2026-01-01T00:00:00Z", "to": "2099-12-31T23:59:59Z",
            "limits": {
                "per_second": null, "per_minute": 100, "per_hour": null,
                "per_day": null, "per_week": null, "per_month": 200_000,
            },
            "scope": {"api_name": "getAccounts", "api_version": null, "bank_id": null},
            "created_at": made["created_at"], "updated_at": made["created_at"],
        });
        assert_eq!(made, expected);
        assert_eq!(read(&mut bank, "c/records"), json!({"consumer_id": "c", "records": [expected]}));

        let one = format!("{path}/{id}");
        let changed = bank.manage("PUT", &one, NONE);
        assert_eq!(changed.status, 200, "{changed:?}");
        let changed = changed.json();
        assert_eq!((&changed["id"], &changed["limits"]["per_minute"]), (&json!(id), &json!(null)));
        assert_eq!(changed["scope"]["api_name"], json!(null), "all of it is replaced");
        assert_eq!(changed["created_at"], made["created_at"]);

        let deleted = bank.manage("DELETE", &one, "");
        assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
        assert_eq!(bank.manage("DELETE", &one, "").status, 404);
    }
}

/// C8: both shapes manage the same records. What one creates, the other shows.
#[test]
fn both_shapes_manage_the_same_records() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let documented = bank.record("c", [-1, 100, 0, -1, -1, -1]);
    let neutral = create(&mut bank, "c", &json!({"per_minute": 50}))["id"].as_str().unwrap().to_owned();
    let shown = read(&mut bank, "c/records");
    let of =
        |id: &str| shown["records"].as_array().unwrap().iter().find(|record| record["id"] == id).unwrap();
    let limits = |id: &str| (of(id)["limits"]["per_minute"].clone(), of(id)["limits"]["per_hour"].clone());
    assert_eq!(limits(&documented), (json!(100), json!(null)), "0 is no limit");
    assert_eq!(limits(&neutral), (json!(50), json!(null)));

    let shown = bank.look("c", "consumer/rate-limits");
    let of = |id: &str| {
        let records = shown["limits"].as_array().unwrap();
        records.iter().find(|record| record["rate_limiting_id"] == id).unwrap()["per_minute_call_limit"]
            .clone()
    };
    assert_eq!((of(&documented), of(&neutral)), (json!("100"), json!("50")));
    assert_eq!(bank.look("c", "active-rate-limits")["active_per_minute_rate_limit"], 150);
    assert_eq!(read(&mut bank, "c/limits")["limits"]["per_minute"], 150);
    assert_eq!(bank.manage("DELETE", &format!("{V1}/c/records/{documented}"), "").status, 204);
    assert_eq!(bank.look("c", "active-rate-limits")["active_per_minute_rate_limit"], 50);
}

/// C3: a record without dates applies from 1970 to the end of 9999.
#[test]
fn dates_of_a_record_may_be_left_out() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let made = create(&mut bank, "c", &json!({"per_minute": 7}));
    assert_eq!(
        (&made["from"], &made["to"]),
        (&json!("1970-01-01T00:00:00Z"), &json!("9999-12-31T23:59:59.999Z"))
    );
    assert_eq!(told(&bank.call("c")).unwrap()[0..2], [7, 6]);
}

/// C8: every limited period with its usage; one whose window has ended is unused.
#[test]
fn usage_is_shown_for_every_limited_period() {
    let mut bank = Bank::at(Place::memory(), "", "");
    create(&mut bank, "c", &json!({"per_second": 10, "per_minute": 6, "per_month": 200_000}));
    assert_eq!(bank.calls("c", 7), [200, 200, 200, 200, 200, 200, 429]);
    bank.advance(Span::from_micros(23_000_001));
    let expected = json!({
        "consumer_id": "c",
        "limits": [
            {"name": "per_second", "amount": 10, "used": 0, "remaining": 10, "reset_ms": 0, "resets_at": null},
            {
                "name": "per_minute", "amount": 6, "used": 6, "remaining": 0,
                "reset_ms": 37_000, "resets_at": "2026-06-01T12:01:00Z",
            },
            {
                "name": "per_month", "amount": 200_000, "used": 6, "remaining": 199_994,
                "reset_ms": 2_591_977_000_u64, "resets_at": "2026-07-01T12:00:00Z",
            },
        ],
    });
    assert_eq!(read(&mut bank, "c/usage"), expected);
}

/// C9: the usage of one consumer is reset; others keep theirs.
#[test]
fn usage_is_reset_per_consumer() {
    for mut bank in banks("") {
        for consumer in ["c", "another"] {
            create(&mut bank, consumer, &json!({"per_hour": 3}));
            assert_eq!(bank.calls(consumer, 4), [200, 200, 200, 429]);
        }
        let usage = read(&mut bank, "c/usage");
        assert_eq!((&usage["limits"][0]["used"], &usage["limits"][0]["remaining"]), (&json!(3), &json!(0)));
        let reset_ms = usage["limits"][0]["reset_ms"].as_u64().unwrap();
        assert!(is_whole(reset_ms.div_ceil(1_000), Period::Hour), "{reset_ms}");
        let reset = bank.manage("DELETE", &format!("{V1}/c/usage"), "");
        assert_eq!((reset.status, reset.body.as_str()), (204, ""));
        assert_eq!(read(&mut bank, "c/usage")["limits"][0]["used"], 0);
        assert_eq!(bank.calls("c", 1), [200]);
        assert_eq!(bank.calls("another", 1), [429]);
    }
}

/// C8: the limits of this hour, and of the hour of any time.
#[test]
fn limits_are_shown_for_now_and_for_a_time() {
    let mut bank = Bank::at(Place::memory(), "per_day = 9", "");
    let record = json!({"from": "2025-12-31T13:59:59Z", "limits": {"per_second": 10, "per_minute": 100}});
    let made = bank.manage("POST", &format!("{V1}/c/records"), &record.to_string()).json();
    let expected = |hour: &str| {
        json!({
            "consumer_id": "c", "hour": hour, "record_ids": [made["id"]], "blocked": false,
            "limits": {
                "per_second": 10, "per_minute": 100, "per_hour": null,
                "per_day": null, "per_week": null, "per_month": null,
            },
        })
    };
    assert_eq!(read(&mut bank, "c/limits"), expected(BEGIN));
    for time in ["2025-12-31T13:00:00Z", "2025-12-31T13:34:46.5Z", "2025-12-31T14:34:46%2B01:00"] {
        assert_eq!(read(&mut bank, &format!("c/limits/{time}")), expected("2025-12-31T13:00:00Z"), "{time}");
    }
    let before = read(&mut bank, "c/limits/2025-12-31T12:59:59Z");
    assert_eq!((&before["record_ids"], &before["limits"]["per_day"]), (&json!([]), &json!(9)));
}

/// C3: the flag is that of the documented API.
#[test]
fn consumer_is_blocked_and_unblocked() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let path = format!("{V1}/c/blocked");
    for (blocked, status) in [(true, 403), (false, 200)] {
        let body = json!({"blocked": blocked});
        assert_eq!(bank.manage("PUT", &path, &body.to_string()).json(), body);
        assert_eq!((read(&mut bank, "c/blocked"), bank.look("c", "blocked")), (body.clone(), body));
        assert_eq!(read(&mut bank, "c/limits")["blocked"], blocked);
        assert_eq!(bank.call("c").status, status);
    }
}

/// C8: whether consumers are limited at all.
#[test]
fn state_of_limiting_is_shown() {
    for (lines, enabled) in [("", true), ("enabled = false", false)] {
        let mut bank = Bank::at(Place::memory(), lines, "");
        let state = bank.manage("GET", V1, "").json();
        let expected =
            json!({"enabled": enabled, "store": "memory", "store_available": true, "limiting": enabled});
        assert_eq!(state, expected);
    }
}

/// C8: invalid requests say what is wrong and change nothing.
#[test]
fn invalid_requests_are_rejected_and_change_nothing() {
    let mut bank = Bank::at(Place::memory(), "", "");
    let mine = create(&mut bank, "c", &json!({"per_minute": 100}))["id"].as_str().unwrap().to_owned();
    let before = read(&mut bank, "c/records");
    let per_minute = |amount: &str| format!(r#"{{"limits": {{"per_minute": {amount}}}}}"#);
    for (body, word) in [
        (per_minute("0"), "expected a number of calls from 1 to 1000000000000000, or null for no limit"),
        (per_minute("-1"), "invalid value: integer `-1`, expected a number of calls"),
        (per_minute("1000000000000001"), "expected a number of calls"),
        (per_minute("\"100\""), "invalid type: string \\\"100\\\", expected a number of calls"),
        (per_minute("1.5"), "expected a number of calls"),
        (r#"{"limits": {"per_minut": 5}}"#.to_owned(), "unknown field `per_minut`"),
        (r#"{"limits": {}, "until": "tomorrow"}"#.to_owned(), "unknown field `until`"),
        ("{}".to_owned(), "missing field `limits`"),
        (String::new(), "EOF"),
        ("[]".to_owned(), "expected a record as an object"),
        (
            r#"{"limits": {}, "from": "2026-02-30T00:00:00Z"}"#.to_owned(),
            "from: \\\"2026-02-30T00:00:00Z\\\" is not",
        ),
        (r#"{"limits": {}, "to": "yesterday"}"#.to_owned(), "to: \\\"yesterday\\\" is not a date"),
        (
            r#"{"limits": {}, "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}"#.to_owned(),
            "before it begins",
        ),
        (r#"{"limits": {}, "scope": {"bank_id": ""}}"#.to_owned(), "scope: bank_id is empty"),
        (r#"{"limits": {}, "scope": {"bank": "x"}}"#.to_owned(), "unknown field `bank`"),
    ] {
        for (method, path) in [("POST", format!("{V1}/c/records")), ("PUT", format!("{V1}/c/records/{mine}"))]
        {
            let answer = bank.manage(method, &path, &body);
            assert_eq!(answer.status, 400, "{method} {body}: {answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(answer.body.contains(word), "{method} {body}: {}", answer.body);
        }
    }
    for (method, path, status, word) in [
        ("PUT", format!("c/records/{UNKNOWN_RECORD}"), 404, "has no record"),
        ("DELETE", format!("another/records/{mine}"), 404, "consumer another has no record"),
        ("DELETE", "c/records/7".to_owned(), 400, "is not the id of a record"),
        ("GET", "c/limits/2025-12-31-13".to_owned(), 400, "write it as 2025-01-01T00:00:00Z"),
        ("GET", "c/limits/9999-12-31T00:00:00Z".to_owned(), 400, "out of range"),
        ("GET", "a_PER_B/limits".to_owned(), 400, "_PER_"),
        ("GET", "a%20b/usage".to_owned(), 400, "visible characters"),
        ("GET", "c/counters".to_owned(), 404, "there is no path"),
        ("POST", "c/usage".to_owned(), 405, "GET, DELETE"),
        ("PUT", "c/blocked".to_owned(), 400, "blocked"),
    ] {
        let answer = bank.manage(method, &format!("{V1}/{path}"), NONE);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.body.contains(word), "{method} {path}: {answer:?}");
    }
    assert_eq!(read(&mut bank, "c/records"), before);
}
