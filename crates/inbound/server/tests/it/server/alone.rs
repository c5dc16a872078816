//! `alone` in the answers to takes: what a client may take while it cannot reach the server.

use serde_json::{Value, json};

use crate::client::Client;
use crate::running::Running;

const POLICIES: &str = r#"
    [policies.api]
    limits = ["1000 requests / hour from first call", "40 tokens / hour from first call"]
    local_share = "1/4"
    [policies.bucket]
    limits = ["1000 requests / hour bucket"]
    [policies.strict]
    limits = ["1000 requests / hour"]
    when_store_fails = "closed"
    [policies.slots]
    limits = ["4 concurrent"]
    [policies.watched]
    limits = ["1000 / hour"]
    shadow = true
"#;

fn alone(client: &mut Client, take: &str) -> Value {
    client.take(take).json()["alone"].clone()
}

/// G7: the server's own share of what is left, divided by its clients; a newcomer waits until the others have taken again.
#[test]
fn each_client_gets_a_part_of_the_servers_share() {
    let server = Running::of(POLICIES);
    let mut first = server.client();
    let take = r#"{"policy": "api", "cost": {"tokens": 0}}"#;
    let share = alone(&mut first, take);
    assert_eq!(share["amount"], json!({ "requests": 249, "tokens": 10 }), "a quarter of 999, and of 40");
    assert_eq!(share["until_ms"], json!(600_000));
    let mut second = server.client();
    assert_eq!(alone(&mut second, take)["amount"], json!({ "requests": 0, "tokens": 0 }));
    let half = json!({ "requests": 124, "tokens": 5 });
    assert_eq!(alone(&mut first, take)["amount"], half, "half of a quarter of 997, and of 40");
    assert_eq!(alone(&mut second, take)["amount"], half);
    let denied = second.take(r#"{"policy": "api", "cost": {"requests": 0, "tokens": 41}}"#);
    assert_eq!((denied.status, &denied.json()["alone"]["amount"]["tokens"]), (422, &Value::Null));
    let denied = second.take(r#"{"policy": "api", "cost": {"requests": 999}}"#);
    assert_eq!((denied.status, &denied.json()["alone"]["amount"]["requests"]), (429, &json!(124)));
    let batch = second.take(&format!("[{take}]")).json();
    assert_eq!(batch[0]["alone"]["amount"]["requests"], 124);
}

/// A bucket that is nearly full is full at once, and its share is still good for a period.
#[test]
fn what_a_client_may_not_count_alone_it_does_not_get() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let bucket = alone(&mut client, r#"{"policy": "bucket"}"#);
    assert_eq!(bucket["amount"], json!({ "requests": 99 }));
    assert_eq!(bucket["until_ms"], json!(600_000));
    assert_eq!(alone(&mut client, r#"{"policy": "strict"}"#)["amount"], json!({ "requests": 0 }));
    for none in ["slots", "watched"] {
        assert_eq!(alone(&mut client, &json!({ "policy": none }).to_string()), Value::Null, "{none}");
    }
    let several = json!({ "all": [{ "policy": "api" }, { "policy": "bucket" }] });
    assert_eq!(alone(&mut client, &several.to_string()), Value::Null);
}
