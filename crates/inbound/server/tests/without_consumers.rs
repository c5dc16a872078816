//! A server built without the feature `consumers`. With the feature, there are no tests here.
#![cfg(not(feature = "consumers"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/log.rs"]
mod log;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/running.rs"]
mod running;

use running::Running;
use tollway_server::ConfigWithServer;

const CONFIG: &str = "[policies.api]\nlimits = [\"2 / hour\"]\n[consumers]\nheader = \"x-consumer-id\"";

#[test]
fn policies_work_without_the_consumers_feature() {
    let server = Running::of(CONFIG);
    let mut client = server.client();
    let statuses = [(); 3].map(|()| client.get("/v1/authorize?policy=api", "").status);
    assert_eq!(statuses, [200, 200, 429]);
    let unnamed = client.get("/v1/authorize", "x-consumer-id: ann\r\n");
    assert_eq!((unnamed.status, &unnamed.json()["type"]), (400, &"urn:tollway:bad-request".into()));
    let named = client.get("/v1/authorize?policy=consumers", "x-consumer-id: ann\r\n");
    assert_eq!((named.status, &named.json()["type"]), (404, &"urn:tollway:unknown-policy".into()));
}

#[test]
fn consumer_routes_are_404_without_the_feature() {
    let server = Running::of(CONFIG);
    let mut admin = server.admin();
    let document = admin.get("/openapi.json", "");
    assert_eq!(document.status, 200);
    for path in ["/obp/v6.0.0/management/consumers/ann/blocked", "/v1/consumers/ann/blocked"] {
        assert!(!document.body.contains(path.split("/ann").next().unwrap()), "{path}");
        let managed = admin.get(path, "");
        assert_eq!((managed.status, &managed.json()["type"]), (404, &"urn:tollway:no-such-path".into()));
    }
}

#[test]
fn consumers_section_is_skipped_without_the_feature() {
    assert_eq!(ConfigWithServer::parse(CONFIG).unwrap().limits().policies().len(), 1);
    let misspelt = CONFIG.replace("[consumers]", "[consumer]");
    assert!(ConfigWithServer::parse(&misspelt).is_err(), "an unknown section is a mistake");
}
