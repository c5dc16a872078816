//! `POST /v1/take`: one take, batches, several policies, and waits.

use serde_json::{Value, json};

use crate::running::Running;

const POLICIES: &str = r#"
    [policies.api]
    limits = ["3 requests / hour from first call"]
    [policies.tokens]
    limits = ["10 / hour", "1000 tokens / hour"]
    [policies.paced]
    limits = ["1 / hour bucket"]
    max_wait = "1d"
    [policies.watched]
    limits = ["1 / hour"]
    shadow = true
    [policies.brief]
    limits = ["1 / minute"]
    shadow = true
    [server.policies.tokens]
    headers = ["ratelimit"]
    [server.policies.paced]
    headers = []
"#;

/// C5: the response and its headers, granted and denied.
#[test]
fn take_is_granted_up_to_the_limit_then_denied() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    for remaining in [2, 1, 0] {
        let answer = client.take(r#"{"policy": "api", "subject": "ann"}"#);
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        assert_eq!(
            (&body["granted"], &body["delay_ms"], &body["degraded"]),
            (&json!(true), &json!(0), &json!(false))
        );
        assert_eq!(body["limits"][0]["name"], "requests_per_hour");
        assert_eq!(
            (&body["limits"][0]["amount"], &body["limits"][0]["remaining"]),
            (&json!(3), &json!(remaining))
        );
        assert!(body["permit"].is_string());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-rate-limit-limit"), Some("3"));
        assert_eq!(answer.header("x-rate-limit-remaining"), Some(remaining.to_string().as_str()));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"requests_per_hour\";q=3;w=3600"));
        assert!(
            answer
                .header("ratelimit")
                .unwrap()
                .starts_with(&format!("\"requests_per_hour\";r={remaining};t=3"))
        );
        assert_eq!(answer.header("retry-after"), None);
    }
    let denied = client.take(r#"{"policy": "api", "subject": "ann"}"#);
    assert_eq!(denied.status, 429);
    let body = denied.json();
    assert_eq!(
        (&body["granted"], &body["policy"], &body["limit"]),
        (&json!(false), &json!("api"), &json!("requests_per_hour"))
    );
    let retry_after = body["retry_after_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&retry_after), "{retry_after}");
    assert_eq!(denied.header("retry-after").unwrap().parse::<u64>().unwrap(), retry_after.div_ceil(1_000));
    assert_eq!(body["permit"], Value::Null);
    assert_eq!(client.take(r#"{"policy": "api", "subject": "bob"}"#).status, 200);
}

/// C5: each policy can choose its headers.
#[test]
fn headers_are_chosen_by_policy() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let tokens = client.take(r#"{"policy": "tokens", "cost": {"tokens": 10}}"#);
    assert_eq!(tokens.header("x-rate-limit-limit"), None);
    assert!(
        tokens
            .header("ratelimit-policy")
            .unwrap()
            .contains("\"tokens_per_hour\";q=1000;qu=\"tokens\";w=3600")
    );
    let paced = client.take(r#"{"policy": "paced"}"#);
    assert_eq!((paced.status, paced.header("ratelimit")), (200, None));
}

#[test]
fn costs_are_charged_by_unit() {
    let server = Running::of(POLICIES);
    let body = server.client().take(r#"{"policy":"tokens","cost":{"tokens":400,"requests":2}}"#).json();
    let remaining: Vec<_> =
        body["limits"].as_array().unwrap().iter().map(|limit| &limit["remaining"]).collect();
    assert_eq!(remaining, [8, 600]);
}

/// A list is independent takes: each has its own decision or error.
#[test]
fn batch_is_answered_in_order() {
    let server = Running::of(POLICIES);
    let takes =
        r#" [{"policy":"api"},{"policy":"apy"},{"policy":"api"},{"policy":"api"},{"policy":"api"},{}]"#;
    let answer = server.client().take(takes);
    assert_eq!(answer.status, 200);
    let body = answer.json();
    let granted: Vec<_> = body.as_array().unwrap().iter().map(|entry| entry["granted"].as_bool()).collect();
    assert_eq!(granted, [Some(true), None, Some(true), Some(true), Some(false), None]);
    assert_eq!(body[1]["status"], 404);
    assert!(body[1]["detail"].as_str().unwrap().contains("did you mean \"api\"?"), "{body}");
    assert_eq!(body[5]["status"], 400);
    assert_eq!(server.client().take("[]").body, "[]");
}

/// B1 over HTTP: several policies and subjects; all are charged or none.
#[test]
fn all_charges_are_taken_or_none() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let both = r#"{"all": [{"policy":"api","subject":"ann"},{"policy":"tokens","subject":"team","cost":{"tokens":600}}]}"#;
    let granted = client.take(both);
    assert_eq!(granted.status, 200, "{granted:?}");
    assert_eq!(granted.json()["limits"][0]["policy"], "api");
    let denied = client.take(both);
    assert_eq!((denied.status, &denied.json()["policy"]), (429, &json!("tokens")));
    // The denial took nothing from the other.
    let ann = client.take(r#"{"policy":"api","subject":"ann"}"#).json();
    assert_eq!(ann["limits"][0]["remaining"], 1);
}

/// B4 over HTTP: a booking, answered at once.
#[test]
fn take_with_a_wait_is_granted_with_a_delay() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    assert_eq!(client.take(r#"{"policy":"paced"}"#).json()["delay_ms"], 0);
    let later = client.take(r#"{"policy":"paced","wait_ms":7200000}"#).json();
    let delay = later["delay_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&delay), "{later}");
    let too_long = client.take(r#"{"policy":"paced","wait_ms":7200000}"#);
    assert_eq!(too_long.status, 200, "the second booking is two hours ahead: {too_long:?}");
    let denied = client.take(r#"{"policy":"paced","wait_ms":3600000}"#);
    assert_eq!(denied.status, 429, "{denied:?}");
}

/// I5 over HTTP.
#[test]
fn take_repeated_with_its_id_counts_once() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let take = r#"{"policy":"api","id":"call-1"}"#;
    let first = client.take(take).json();
    let again = client.take(take).json();
    assert_eq!(again["permit"], first["permit"]);
    assert_eq!(again["limits"][0]["remaining"], 2);
    let other = client.take(r#"{"policy":"api","cost":{"requests":2},"id":"call-1"}"#);
    assert_eq!((other.status, &other.json()["type"]), (409, &json!("urn:tollway:id-conflict")));
}

/// B9 over HTTP: a shadow policy reports a denial and denies nothing.
#[test]
fn shadow_take_would_deny_but_is_granted() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let both = r#"{"all":[{"policy":"api"},{"policy":"watched"}]}"#;
    let first = client.take(both).json();
    assert_eq!((&first["granted"], &first["would_deny"]), (&json!(true), &Value::Null));
    for remaining in [1, 0] {
        let next = client.take(both).json();
        assert_eq!((&next["granted"], &next["would_deny"]), (&json!(true), &json!(true)));
        assert_eq!(next["limits"][0]["remaining"], remaining);
    }
    assert_eq!(client.take(both).status, 429);
}

/// B9, C5: no header shows a shadow policy, granted or denied, with others or alone.
#[test]
fn shadow_policy_is_in_no_header() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    // The shadow policy has the shorter period and is exhausted first.
    let both = r#"{"all":[{"policy":"api"},{"policy":"brief"}]}"#;
    for (status, remaining) in [(200, "2"), (200, "1"), (200, "0"), (429, "0")] {
        let answer = client.take(both);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("x-rate-limit-limit"), Some("3"));
        assert_eq!(answer.header("x-rate-limit-remaining"), Some(remaining));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"api.requests_per_hour\";q=3;w=3600"));
        assert!(!answer.header("ratelimit").unwrap().contains("brief"), "{answer:?}");
    }
    for _ in 0..2 {
        let alone = client.take(r#"{"policy":"brief"}"#);
        let told = ["x-rate-limit-remaining", "ratelimit", "ratelimit-policy"].map(|name| alone.header(name));
        assert_eq!((alone.status, told), (200, [None; 3]));
    }
}
