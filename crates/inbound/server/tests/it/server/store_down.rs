//! A failing store: each policy follows its `when_store_fails`, and the API stays up.

use std::time::Instant;

use serde_json::json;
use tollway_testkit::servers::RedisServer;

use crate::log::Log;
use crate::running::{LONG, Setup};

/// C7: `closed` is a 503 with `Retry-After`, `open` grants, `local` grants its share; the log reports failure and recovery.
#[test]
fn when_store_fails_applies_while_the_store_is_down() {
    let redis = RedisServer::start();
    let log = Log::default();
    let mut setup = Setup::of(&format!(
        r#"
        [store]
        url = "{}"
        [policies.closed]
        limits = ["100 / hour"]
        when_store_fails = "closed"
        [policies.open]
        limits = ["100 / hour"]
        when_store_fails = "open"
        [policies.local]
        limits = ["100 / hour"]
        "#,
        redis.url()
    ));
    setup.log = Some(log.clone());
    let server = setup.start();
    let mut client = server.client();
    let take = |policy: &str| format!(r#"{{"policy":"{policy}"}}"#);
    assert_eq!(client.take(&take("closed")).json()["limits"][0]["remaining"], 99);

    redis.kill();
    let refused = client.take(&take("closed"));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["type"], "urn:tollway:store-unavailable");
    assert!(refused.header("retry-after").is_some());
    let open = client.take(&take("open")).json();
    assert_eq!((&open["granted"], &open["degraded"]), (&json!(true), &json!(true)));
    let local: Vec<u16> = (0..12).map(|_| client.take(&take("local")).status).collect();
    assert_eq!(local, [[200; 10].as_slice(), &[429; 2]].concat());
    assert_eq!(client.get("/openapi.json", "").status, 200);
    assert_eq!(server.admin().get("/ready", "").json()["status"], "degraded");

    let begun = Instant::now();
    while !log.text().contains("Redis issue: ") {
        assert!(begun.elapsed() < LONG, "the failure is not logged: {}", log.text());
        std::thread::yield_now();
    }

    let logged = log.text();
    let issue = logged.lines().find(|line| line.contains("Redis issue: ")).unwrap();
    assert!(issue.contains("store unreachable: ") && issue.contains("refused"), "{issue}");

    redis.restart();
    let begun = Instant::now();
    while client.take(&take("closed")).status != 200 {
        assert!(begun.elapsed() < LONG, "the recovered store is not used");
        std::thread::yield_now();
    }
    while !log.text().contains("the store is back") {
        assert!(begun.elapsed() < LONG, "the recovery is not logged: {}", log.text());
        std::thread::yield_now();
    }
}
