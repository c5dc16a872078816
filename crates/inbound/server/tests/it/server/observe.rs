//! `/v1/observe`: programs report how a vendor answered, and the client's core takes it in.

use std::time::Duration;

use serde_json::{Value, json};
use tollway::core::Feedback;
use tollway_server::{ListenAddress, ListenerKind, OBSERVED_BODY_BYTES_MAX};
use tollway_testkit::servers::RedisServer;

use crate::client::{Answer, Client};
use crate::running::{Running, Setup};

const CONFIG: &str = r#"
    [policies.plain]
    limits = ["1000 / hour"]
    [policies.slots]
    limits = ["1 concurrent expires 5m"]
    [apis.slots]
    base_url = "http://127.0.0.1:1"
    dialect = "openai"
    [apis.v]
    base_url = "http://127.0.0.1:1"
    limits = ["1000 / hour"]
    [apis.paced]
    base_url = "http://127.0.0.1:1"
    rate = { initial = 100, min = 1, max = 200, increase_step = 1, decrease_factor = 0.5 }
    [apis.measured]
    base_url = "http://127.0.0.1:1"
    rate = "auto"
"#;

/// A permit under a policy.
fn permit(client: &mut Client, policy: &str) -> String {
    for _ in 0..1_500 {
        let taken = client.take(&json!({ "policy": policy, "wait_ms": 1_000 }).to_string());
        if let Some(permit) = taken.json()["permit"].as_str() {
            std::thread::sleep(Duration::from_millis(taken.json()["delay_ms"].as_u64().unwrap()));
            return permit.to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no permit under {policy}");
}

/// Reports an answer with these fields beside the permit.
fn observe(client: &mut Client, permit: &str, fields: Value) -> Answer {
    let Value::Object(mut body) = fields else { panic!("fields are an object") };
    body.insert("permit".to_owned(), permit.into());
    client.post("/v1/observe", &Value::Object(body).to_string())
}

/// The rate of the api `paced`, in calls a second.
fn rate(server: &Running) -> f64 {
    let learned = server.server.limiter().feedback("paced", Feedback::default()).now().unwrap();
    f64::from(u32::try_from(learned.rate.unwrap().rate / 1_000).unwrap()) / 1_000.0
}

fn until_rate(server: &Running, wanted: f64) {
    let mut last = 0.0;
    for _ in 0..1_500 {
        last = rate(server);
        if (last - wanted).abs() < 0.001 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the rate is {last}, not {wanted}");
}

/// D1, D5: a refusal is classified, holds everybody, and is an incident, because the fixed limits had granted the call.
#[test]
fn refusal_holds_all_and_is_an_incident() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let refused = permit(&mut client, "v");
    let headers =
        json!({ "Retry-After": "7", "Set-Cookie": ["session=s3cret"], "Authorization": "Bearer s3cret" });
    let seen =
        observe(&mut client, &refused, json!({ "status": 429, "headers": headers, "body": "slow down" }));
    assert_eq!(
        (seen.status, seen.json()),
        (200, json!({ "refused": true, "kind": "rate", "wait_ms": 7_000, "retry": true }))
    );
    let denied = client.take(r#"{"policy":"v"}"#);
    assert_eq!(denied.status, 429);
    let wait = denied.json()["retry_after_ms"].as_u64().unwrap();
    assert!((1..=7_000).contains(&wait), "{wait}");
    let incidents = server.server.limiter().incidents();
    assert_eq!(incidents.len(), 1);
    assert_eq!(
        (incidents[0].policy.as_str(), &*incidents[0].said),
        ("v", "429 rate (slow down), wait 7.0 s")
    );
    assert!(!format!("{incidents:?}").contains("s3cret"));
}

/// Every other answer is the program's own: it holds nothing.
#[test]
fn other_answers_hold_nothing() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    for answer in [
        json!({ "status": 200, "headers": {}, "body": "hello" }),
        json!({ "status": 500 }),
        json!({ "status": 404, "headers": { "no name": "x" } }),
        // No answer: it timed out.
        json!({}),
    ] {
        let permit = permit(&mut client, "v");
        let seen = observe(&mut client, &permit, answer.clone());
        assert_eq!(
            (seen.status, seen.json()),
            (200, json!({ "refused": false, "retry": false })),
            "{answer}"
        );
    }
    assert_eq!(client.take(r#"{"policy":"v"}"#).status, 200);
    assert_eq!(server.server.limiter().incidents().len(), 0);
}

/// D1: accepted calls raise the rate, a refusal cuts it.
#[test]
fn answers_move_the_rate() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let first = permit(&mut client, "paced");
    for number in 0..8 {
        let permit = if number == 0 { first.clone() } else { permit(&mut client, "paced") };
        observe(&mut client, &permit, json!({ "status": 200 }));
    }
    until_rate(&server, 108.0);
    let permit = permit(&mut client, "paced");
    let seen = observe(&mut client, &permit, json!({ "status": 429 })).json();
    assert_eq!(
        (&seen["refused"], &seen["kind"], &seen["retry"]),
        (&json!(true), &json!("rate"), &json!(true))
    );
    assert!(seen["wait_ms"].as_u64().is_some_and(|wait| wait > 0), "a bare refusal holds, too: {seen}");
    assert!((rate(&server) - 54.0).abs() < 0.001, "{}", rate(&server));
}

/// Quotas in headers are read, too.
#[test]
fn quotas_in_headers_leave_room_for_what_is_left() {
    let config = "[apis.v]\nbase_url = \"http://127.0.0.1:1\"\nrate = \"auto\"";
    let server = Running::of(config);
    let mut client = server.client();
    for left in (990..1_000).rev() {
        let permit = permit(&mut client, "v");
        let headers = json!({ "x-ratelimit-limit": "1000", "x-ratelimit-remaining": left.to_string(), "x-ratelimit-reset": "60" });
        observe(&mut client, &permit, json!({ "status": 200, "headers": headers }));
    }
    // Of a thousand in a minute nearly all are left.
    assert_eq!(client.take(r#"{"policy":"v","wait_ms":5000}"#).status, 200);
}

/// Each permit once, and only those of apis.
#[test]
fn permit_is_observed_once() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let permit_of_api = permit(&mut client, "v");
    assert_eq!(observe(&mut client, &permit_of_api, json!({ "status": 200 })).status, 200);
    let plain = permit(&mut client, "plain");
    for (permit, status, kind) in [
        (permit_of_api.as_str(), 409, "urn:tollway:observed-before"),
        (&plain, 422, "urn:tollway:not-of-an-api"),
        ("nonsense", 422, "urn:tollway:unknown-permit"),
    ] {
        let seen = observe(&mut client, permit, json!({ "status": 429 }));
        assert_eq!((seen.status, seen.json()["type"].as_str().unwrap()), (status, kind));
    }
    assert_eq!(client.take(r#"{"policy":"v"}"#).status, 200, "the second report had no effect");
}

/// A permit is reported within the api's `max_time`.
#[test]
fn permit_is_observed_within_its_life() {
    let config = "[apis.v]\nbase_url = \"http://127.0.0.1:1\"\nlimits = [\"9 / minute\"]\nmax_time = \"1ms\"";
    let server = Running::of(config);
    let mut client = server.client();
    let permit = permit(&mut client, "v");
    std::thread::sleep(Duration::from_millis(5));
    let seen = observe(&mut client, &permit, json!({ "status": 429 }));
    assert_eq!((seen.status, seen.json()["type"].as_str().unwrap()), (409, "urn:tollway:observed-too-late"));
}

/// A vendor's nonsense does not hold back calls for longer than the client would.
#[test]
fn waits_are_bounded() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let permit = permit(&mut client, "v");
    let headers = json!({ "retry-after": "999999999" });
    let seen = observe(&mut client, &permit, json!({ "status": 429, "headers": headers })).json();
    assert_eq!(seen["wait_ms"], 3_600_000);
    assert!(client.take(r#"{"policy":"v"}"#).json()["retry_after_ms"].as_u64().unwrap() <= 3_600_000);
}

/// Without access, waiting does not help, and no call is held. A refused call is over: its slots are free.
#[test]
fn refusal_frees_slots() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let first = permit(&mut client, "slots");
    observe(&mut client, &first, json!({ "status": 200 }));
    assert_eq!(client.take(r#"{"policy":"slots"}"#).status, 429, "an answer may still be read");
    client.post("/v1/done", &json!({ "permit": first }).to_string());
    let second = permit(&mut client, "slots");
    let body = json!({ "error": { "code": "insufficient_quota" } }).to_string();
    let seen = observe(&mut client, &second, json!({ "status": 429, "body": body }));
    assert_eq!(seen.json(), json!({ "refused": true, "kind": "no_access", "retry": false }));
    while client.take(r#"{"policy":"slots"}"#).status != 200 {
        // Freed in the background.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn wrong_reports_are_refused() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let permit = permit(&mut client, "v");
    let long = "x".repeat(OBSERVED_BODY_BYTES_MAX + 1);
    for (fields, status) in [
        (json!({ "status": 99 }), 400),
        (json!({ "status": 600 }), 400),
        (json!({ "status": "200" }), 400),
        (json!({ "headers": { "retry-after": "1" } }), 400),
        (json!({ "body": "x" }), 400),
        (json!({ "status": 429, "headers": { "retry-after": 1 } }), 400),
        (json!({ "status": 429, "headers": { "a": vec!["1"; 101] } }), 400),
        (json!({ "status": 429, "more": 1 }), 400),
        (json!({ "status": 429, "body": long }), 422),
    ] {
        let seen = observe(&mut client, &permit, fields.clone());
        assert_eq!(seen.status, status, "{fields}: {seen:?}");
    }
    let fits = json!({ "status": 200, "body": &long[1..] });
    assert_eq!(observe(&mut client, &permit, fits).status, 200, "no wrong report used the permit up");
}

/// G11: what is reported to one server holds the callers of all that share the store, also if it stops at once.
#[test]
fn servers_share_what_was_reported() {
    let redis = RedisServer::start();
    let config = format!("[store]\nurl = \"{}\"\n{CONFIG}", redis.url());
    let (first, second) = (Running::of(&config), Running::of(&config));
    let mut client = first.client();
    let refused = permit(&mut client, "v");
    let paced = permit(&mut client, "paced");
    observe(&mut second.client(), &refused, json!({ "status": 429, "headers": { "retry-after": "30" } }));
    assert_eq!(client.take(r#"{"policy":"v"}"#).status, 429);
    observe(&mut client, &paced, json!({ "status": 200 }));
    drop((client, first));
    until_rate(&second, 101.0);
}

/// A report holds back every process: other machines need a token for it, also where takes need none.
#[test]
fn other_machines_need_a_token() {
    let everywhere = |text: &str| {
        let mut setup = Setup::of(&format!("{CONFIG}{text}"));
        setup.config.listen = ListenAddress::Tcp("0.0.0.0:0".parse().unwrap());
        setup.start()
    };
    let client_of = |server: &Running| {
        let port = server.tcp(ListenerKind::Decisions).port();
        Client::tcp(([127, 0, 0, 1], port).into())
    };
    let open = everywhere("");
    let mut client = client_of(&open);
    let taken = permit(&mut client, "v");
    let seen = observe(&mut client, &taken, json!({ "status": 429 }));
    assert_eq!((seen.status, seen.json()["type"].as_str().unwrap()), (403, "urn:tollway:needs-token"));
    assert_eq!(client.take(r#"{"policy":"v"}"#).status, 200);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "a-token-of-this-test").unwrap();
    let guarded = everywhere(&format!("[server.tokens]\ndecisions = \"file:{}\"", path.display()));
    let mut client = client_of(&guarded);
    let token = "x-tollway-token: a-token-of-this-test\r\n";
    let taken = client.ask("POST", "/v1/take", token, r#"{"policy":"v"}"#).json()["permit"].clone();
    let report = json!({ "permit": taken, "status": 200 }).to_string();
    assert_eq!(client.ask("POST", "/v1/observe", "", &report).status, 401);
    assert_eq!(client.ask("POST", "/v1/observe", token, &report).status, 200);
}

/// B5: what the vendor's headers say is left is part of the usage.
#[test]
fn quotas_in_headers_are_shown_in_the_usage() {
    let server = Running::of(CONFIG);
    let (mut client, mut admin) = (server.client(), server.admin());
    let mut usage = || admin.get("/v1/usage?policy=measured", "").json();
    assert_eq!(usage()["vendor_quotas"], Value::Null);
    let permit = permit(&mut client, "measured");
    let headers =
        json!({ "RateLimit-Limit": "5000", "RateLimit-Remaining": "4321", "RateLimit-Reset": "3000" });
    observe(&mut client, &permit, json!({ "status": 200, "headers": headers }));
    // The report goes to the store in the background.
    for _ in 0..1_500 {
        if let Some(quota) = usage()["vendor_quotas"].get(0) {
            assert_eq!((&quota["limit"], &quota["remaining"]), (&json!(5_000), &json!(4_321)));
            assert!(quota["resets_at_ms"].is_u64(), "{quota}");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no quotas: {}", usage());
}
