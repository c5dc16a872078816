//! Operations on permits.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::running::{Running, Setup};

const POLICIES: &str = r#"
    [policies.tokens]
    limits = ["1000 tokens / hour"]
    [policies.slots]
    limits = ["1 concurrent expires 1s"]
    [policies.paced]
    limits = ["1 / hour bucket"]
    max_wait = "1d"
"#;

fn permit(answer: &Answer) -> String {
    answer.json()["permit"].as_str().unwrap_or_else(|| panic!("no permit: {answer:?}")).to_owned()
}

fn say(client: &mut Client, word: &str, permit: &str) -> Answer {
    client.post(&format!("/v1/{word}"), &json!({ "permit": permit }).to_string())
}

fn settle(client: &mut Client, permit: &str, tokens: u64) -> Answer {
    client.post("/v1/settle", &json!({ "permit": permit, "cost": { "tokens": tokens } }).to_string())
}

fn remaining(client: &mut Client) -> Value {
    client.take(r#"{"policy":"tokens","cost":{"tokens":0}}"#).json()["limits"][0]["remaining"].clone()
}

/// B3 over HTTP: an estimate is settled to what was used, once.
#[test]
fn estimate_is_settled_once() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let permit = permit(&client.take(r#"{"policy":"tokens","cost":{"tokens":400}}"#));
    assert_eq!(say(&mut client, "begin", &permit).json(), json!({ "delay_ms": 0 }));
    assert_eq!(settle(&mut client, &permit, 100).json(), json!({ "settled": "whole" }));
    assert_eq!(remaining(&mut client), 900);
    assert_eq!(settle(&mut client, &permit, 0).json(), json!({ "settled": "repeated" }));
    assert_eq!(say(&mut client, "return", &permit).json(), json!({ "settled": "repeated" }));
    assert_eq!(remaining(&mut client), 900);
}

#[test]
fn unused_permit_returns_its_cost() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let permit = permit(&client.take(r#"{"policy":"tokens","cost":{"tokens":400}}"#));
    assert_eq!(say(&mut client, "return", &permit).json(), json!({ "settled": "whole" }));
    assert_eq!(remaining(&mut client), 1_000);
}

#[test]
fn slot_is_held_until_done_or_expired() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let first = permit(&client.take(r#"{"policy":"slots"}"#));
    assert_eq!(
        client.take(r#"{"policy":"slots"}"#).status,
        429,
        "the answer to a take does not free its slot"
    );
    assert_eq!(say(&mut client, "renew", &first).json(), json!({ "renewed": true }));
    assert_eq!(say(&mut client, "done", &first).json(), json!({ "done": true }));
    let second = client.take(r#"{"policy":"slots"}"#);
    assert_eq!(second.status, 200);
    assert_eq!(say(&mut client, "renew", &first).json(), json!({ "renewed": false }));
    // Without a renewal, the slot expires.
    while client.take(r#"{"policy":"slots"}"#).status == 429 {
        std::thread::yield_now();
    }
    assert_eq!(say(&mut client, "renew", &permit(&second)).json(), json!({ "renewed": false }));
}

#[test]
fn future_booking_reports_its_delay_and_is_returned_exactly() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    client.take(r#"{"policy":"paced"}"#);
    let later = permit(&client.take(r#"{"policy":"paced","wait_ms":7200000}"#));
    let delay = say(&mut client, "begin", &later).json()["delay_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&delay), "{delay}");
    assert_eq!(say(&mut client, "return", &later).json(), json!({ "settled": "whole" }));
    let next = client.take(r#"{"policy":"paced","wait_ms":3600000}"#);
    assert_eq!(next.status, 200, "the booking is free again: {next:?}");
}

/// Permits are signed: a foreign or modified one is rejected and changes nothing.
#[test]
fn foreign_or_modified_permit_is_rejected() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let ours = permit(&client.take(r#"{"policy":"tokens","cost":{"tokens":400}}"#));
    let others = Running::of(POLICIES);
    let theirs = permit(&others.client().take(r#"{"policy":"tokens","cost":{"tokens":400}}"#));
    let mut changed = ours.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for permit in [&theirs, &changed, "", "nonsense", &ours[2..]] {
        for word in ["begin", "done", "return", "renew"] {
            let answer = say(&mut client, word, permit);
            assert_eq!(
                (answer.status, &answer.json()["type"]),
                (422, &json!("urn:tollway:unknown-permit")),
                "{word}"
            );
        }
        assert_eq!(settle(&mut client, permit, 0).status, 422);
    }
    assert_eq!(remaining(&mut client), 600);
}

/// Every server that shares the store accepts a permit, also after a restart.
#[test]
fn permit_works_on_every_server_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"file:{}\"\n{POLICIES}", folder.path().join("state").display());
    let first = Setup::of(&config).start();
    let second = Setup::of(&config).start();
    let [one, other] = [400, 300].map(|tokens| {
        permit(&first.client().take(&format!(r#"{{"policy":"tokens","cost":{{"tokens":{tokens}}}}}"#)))
    });
    assert_eq!(say(&mut second.client(), "return", &one).json(), json!({ "settled": "whole" }));
    drop((first, second));
    let restarted = Setup::of(&config).start();
    assert_eq!(say(&mut restarted.client(), "return", &other).json(), json!({ "settled": "whole" }));
    assert_eq!(say(&mut restarted.client(), "return", &one).json(), json!({ "settled": "repeated" }));
    assert_eq!(remaining(&mut restarted.client()), 1_000);
}
