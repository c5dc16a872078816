//! Stop, drain and reload.

use std::net::TcpStream;

use tollway_server::{ConfigWithServer, ListenerKind};

use crate::running::{LONG, Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"100 requests / hour\"]";

/// A stop answers requests in flight and accepts no new connections.
#[test]
fn stop_lets_requests_in_flight_finish() {
    let mut server = Running::of(POLICIES);
    let address = server.tcp(ListenerKind::Decisions);
    let mut idle = server.client();
    assert_eq!(idle.take(r#"{"policy":"api"}"#).status, 200);
    let mut running = server.client();
    let head = "POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 16\r\nexpect: 100-continue\r\n\r\n";
    running.write(head).unwrap();
    // The interim response shows that a worker has the request.
    assert_eq!(running.answer().unwrap().status, 100);
    running.write("{\"policy\"").unwrap();
    server.tell_to_stop();
    idle.closed();
    while TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
    running.write(":\"api\"}").unwrap();
    let answer = running.answer().unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    running.closed();
    server.ended().unwrap();
}

/// A request that exceeds the grace is cut off, and the server ends.
#[test]
fn stop_waits_no_longer_than_the_grace() {
    let mut setup = Setup::of(POLICIES);
    setup.config.grace = std::time::Duration::from_millis(100);
    let server = setup.start();
    let mut slow = server.client();
    let head = "POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 16\r\nexpect: 100-continue\r\n\r\n";
    slow.write(head).unwrap();
    assert_eq!(slow.answer().unwrap().status, 100);
    slow.write("{").unwrap();
    server.ended().unwrap();
    slow.closed();
}

/// During the drain, `/ready` returns 503 while new connections still get decisions.
#[test]
fn drain_reports_not_ready_while_still_serving() {
    let mut setup = Setup::of(POLICIES);
    setup.config.drain = LONG;
    let mut server = setup.start();
    assert_eq!(server.admin().get("/ready", "").status, 200);
    server.tell_to_stop();
    while server.admin().get("/ready", "").status == 200 {
        std::thread::yield_now();
    }
    let ready = server.admin().get("/ready", "");
    assert_eq!((ready.status, &ready.json()["status"]), (503, &"stopping".into()));
    assert_eq!(server.admin().get("/health", "").status, 200);
    assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
    let address = server.tcp(ListenerKind::Decisions);
    server.server.end_drain();
    server.ended().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

/// During the grace, decisions accept no connections, and administration still does.
#[test]
fn administration_closes_after_the_last_decision() {
    let mut server = Running::of(POLICIES);
    let [address, administration] =
        [ListenerKind::Decisions, ListenerKind::Administration].map(|kind| server.tcp(kind));
    let mut running = server.client();
    let head = "POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 16\r\nexpect: 100-continue\r\n\r\n";
    running.write(head).unwrap();
    assert_eq!(running.answer().unwrap().status, 100);
    server.tell_to_stop();
    while TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
    let asked = ["/ready", "/health", "/metrics"].map(|path| server.admin().get(path, "").status);
    assert_eq!(asked, [503, 200, 200]);
    running.write("{\"policy\":\"api\"}").unwrap();
    assert_eq!(running.answer().unwrap().status, 200);
    server.ended().unwrap();
    assert!(TcpStream::connect(administration).is_err());
}

/// A reload removes policies that the config no longer has, and keeps the usage of the others.
#[test]
fn policies_are_looked_up_again_after_a_reload() {
    let server =
        Running::of("[policies.api]\nlimits = [\"5 / hour\"]\n[policies.old]\nlimits = [\"5 / hour\"]");
    let mut client = server.client();
    assert_eq!(client.take(r#"{"policy":"old"}"#).status, 200);
    assert_eq!(client.take(r#"{"policy":"api","cost":{"requests":5}}"#).status, 200);
    let changed = ConfigWithServer::parse(
        "[policies.api]\nlimits = [\"6 / hour\"]\n[policies.new]\nlimits = [\"5 / hour\"]",
    );
    let policies =
        changed.unwrap().limits().policies().iter().map(|policy| (**policy).clone()).collect::<Vec<_>>();
    server.server.limiter().replace_policies(policies).unwrap();
    assert_eq!(client.take(r#"{"policy":"old"}"#).status, 404);
    assert_eq!(client.take(r#"{"policy":"new"}"#).status, 200);
    assert_eq!([(); 2].map(|()| client.take(r#"{"policy":"api"}"#).status), [200, 429]);
}

/// A reload of `[server]` applies to open connections.
#[test]
fn reload_applies_to_open_connections() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    assert!(client.take(r#"{"policy":"api"}"#).header("ratelimit").is_some());
    let reload = |server_says: &str| {
        server.server.reload(&ConfigWithServer::parse(&format!("{POLICIES}\n{server_says}")).unwrap())
    };
    reload("[server]\nheaders = []").unwrap();
    assert!(client.take(r#"{"policy":"api"}"#).header("ratelimit").is_none());
    assert!(reload("[server.tokens]\nread = 'env:TOLLWAY_NO_SUCH'").is_err());
    assert!(
        client.take(r#"{"policy":"api"}"#).header("ratelimit").is_none(),
        "a failed reload changes nothing"
    );
}

/// Both HTTP listeners serve their OpenAPI document.
#[test]
fn each_listener_serves_its_openapi_document() {
    let server = Running::of(POLICIES);
    for (mut client, path) in [(server.client(), "/v1/take"), (server.admin(), "/v1/policies")] {
        let document = client.get("/openapi.json", "").json();
        assert_eq!(document["openapi"], "3.1.0");
        assert!(document["paths"].get(path).is_some());
    }
    assert_eq!(server.admin().get("/ready", "").json()["status"], "ok");
}
