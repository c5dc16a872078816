//! Real Envoy in front, with the configuration of `examples/envoy`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/log.rs"]
mod log;
mod proxy;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../it/running.rs"]
mod running;
mod service;

use std::thread;

use client::{Answer, Client};
use proxy::Envoy;
use running::{Running, Setup};
use service::Service;
use tollway_server::ListenerKind;

/// The example's config with other limits, so that no window ends during a test.
fn tollway(changes: &[(&str, &str)]) -> Running {
    let example = include_str!("../../../../../examples/envoy/tollway.toml");
    let moved = [("127.0.0.1:8081", "127.0.0.1:0")];
    Setup::of(&proxy::changed(example, changes.iter().chain(&moved).copied())).start()
}

const PER_ADDRESS: &str = "100 requests / minute";
const LOGIN: &str = "5 requests / minute";
const TRIAL: &str = "20 requests / minute";

fn get(client: &mut Client, path: &str, headers: &str) -> Answer {
    client.get(path, headers)
}

/// B10: many concurrent connections through Envoy get exactly the limit; its headers show what remains.
#[test]
fn limit_is_exact_behind_envoy() {
    let tollway = tollway(&[(PER_ADDRESS, "50 requests / hour from first call")]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let first = get(&mut envoy.client(), "/", "");
    assert_eq!(first.status, 200);
    assert_eq!(first.header("x-ratelimit-limit"), Some("50, 50;w=3600;name=\"requests_per_hour\""));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("49"));
    let statuses: Vec<u16> = thread::scope(|scope| {
        let client = || {
            let mut client = envoy.client();
            (0..15).map(|_| get(&mut client, "/", "").status).collect::<Vec<u16>>()
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (49, 71), "{statuses:?}");
    let denied = get(&mut envoy.client(), "/", "");
    assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    let wait: u32 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&wait));
    assert_eq!(service.served(), 50);
}

/// I2, I3: a request that the login limit denies does not charge the other limit.
#[test]
fn denial_charges_no_other_limit() {
    let hour = "requests / hour from first call";
    let tollway = tollway(&[(PER_ADDRESS, &format!("10 {hour}")), (LOGIN, &format!("3 {hour}"))]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let mut client = envoy.client();
    let logins: Vec<u16> = (0..9).map(|_| get(&mut client, "/login?again", "").status).collect();
    assert_eq!(logins, [[200; 3].as_slice(), &[429; 6]].concat());
    let others: Vec<u16> = (0..9).map(|_| get(&mut client, "/", "").status).collect();
    assert_eq!(others, [[200; 7].as_slice(), &[429; 2]].concat());
}

/// B9: a shadow policy denies nothing; only the service and Envoy's log see its denials.
#[test]
fn shadow_denial_reaches_the_service_and_the_log() {
    let tollway = tollway(&[(TRIAL, "2 requests / hour from first call")]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let mut client = envoy.client();
    let answers: Vec<Answer> = (0..4).map(|_| get(&mut client, "/", "x-user: ann\r\n")).collect();
    let told: Vec<&str> = answers.iter().map(|answer| answer.body.as_str()).collect();
    assert_eq!(told, ["", "", "per_user_trial", "per_user_trial"]);
    for answer in &answers {
        assert_eq!((answer.status, answer.header("x-tollway-would-deny")), (200, None));
        let limit = answer.header("x-ratelimit-limit");
        assert!(limit.is_some_and(|limit| limit.starts_with("100, 100;w=60")), "{limit:?}");
    }
    let free: Vec<u16> = (0..4).map(|_| get(&mut client, "/", "x-user: monitoring\r\n").status).collect();
    assert_eq!(free, [200; 4]);
    drop(client);
    let log = envoy.ended();
    let would_deny = log.lines().filter(|line| *line == "/ 200 would_deny=per_user_trial").count();
    assert_eq!(would_deny, 2, "{log}");
}

/// B10: a route may count as several hits.
#[test]
fn route_hits_addend_is_counted() {
    let tollway = tollway(&[(PER_ADDRESS, "25 requests / hour from first call")]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let mut client = envoy.client();
    let exports: Vec<u16> = (0..3).map(|_| get(&mut client, "/export", "").status).collect();
    assert_eq!(exports, [200, 200, 429]);
    let others: Vec<u16> = (0..6).map(|_| get(&mut client, "/", "").status).collect();
    assert_eq!(others, [200, 200, 200, 200, 200, 429], "a denied cost of ten leaves five");
}

/// B10: a limit that Envoy sends is enforced, with its own usage.
#[test]
fn envoy_override_limit_is_enforced() {
    let tollway = tollway(&[(PER_ADDRESS, "2 requests / hour from first call")]);
    let service = Service::start();
    let changes = [("requests_per_unit: 10", "requests_per_unit: 3")];
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &changes);
    let mut client = envoy.client();
    let first = get(&mut client, "/beta", "");
    let limit = first.header("x-ratelimit-limit");
    assert!(limit.is_some_and(|limit| limit.starts_with("3, 3;w=3600")), "{limit:?}");
    let more: Vec<u16> = (0..4).map(|_| get(&mut client, "/beta", "").status).collect();
    assert_eq!(more, [200, 200, 429, 429]);
    assert_eq!(get(&mut client, "/", "").status, 200);
}

/// T18: a header that is not UTF-8 counts, and cannot bypass the limit by making the call fail.
#[test]
fn non_utf8_header_is_counted() {
    let limit = "2 requests / hour from first call";
    let tollway = tollway(&[(TRIAL, limit), ("shadow = true", "")]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let mut client = envoy.client();
    let statuses: Vec<u16> = (0..4)
        .map(|_| {
            client.write(b"GET / HTTP/1.1\r\nhost: test\r\nx-user: \xff\xfe\r\n\r\n").unwrap();
            client.answer().unwrap().status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// C4, C5, B10: a consumer behind a real Envoy sees the denying limit in headers and JSON. An invalid id is denied, although
/// Envoy fails open here.
#[test]
fn consumer_denial_reaches_the_client_through_envoy() {
    const CONSUMERS: &str = r#"
        [consumers]
        records = "sqlite::memory:"
        per_hour = 2
        per_day = 9
        anonymous_per_hour = 1
        [[server.descriptors]]
        domain = "edge"
        keys = ["consumer"]
        policy = "consumers"
        [[server.descriptors]]
        domain = "edge"
        keys = ["header_match=anonymous", "remote_address"]
        policy = "anonymous"
    "#;
    // As in the guide, except for the name of the header.
    const ACTIONS: &str = "header_name: x-user, descriptor_key: consumer }
                              - actions:
                                  - header_value_match:
                                      descriptor_value: anonymous
                                      expect_match: false
                                      headers: [{ name: x-user, present_match: true }]
                                  - remote_address: {}";
    let tollway = tollway(&[("[policies.login]", &format!("{CONSUMERS}\n[policies.login]"))]);
    let service = Service::start();
    let changes = [
        ("header_name: x-user, descriptor_key: user }", ACTIONS),
        ("failure_mode_deny: true", "failure_mode_deny: false"),
    ];
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &changes);
    let mut client = envoy.client();
    for remaining in ["1", "0"] {
        let granted = get(&mut client, "/", "x-user: abc\r\n");
        assert_eq!((granted.status, granted.header("x-rate-limit-remaining")), (200, Some(remaining)));
    }
    let refused = get(&mut client, "/", "x-user: abc\r\n");
    let message = "Too Many Requests. We only allow 2 requests per hour for this Consumer.";
    assert_eq!((refused.status, &refused.json()["message"]), (429, &message.into()));
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(refused.header("x-rate-limit-limit"), Some("2"));
    let long = "x".repeat(300);
    for id in ["a b", "c_PER_MINUTE", "192.0.2.7", &long] {
        let refused = get(&mut client, "/", &format!("x-user: {id}\r\n"));
        assert_eq!((refused.status, &refused.json()["type"]), (429, &"urn:tollway:unknown-consumer".into()));
    }
    assert_eq!(get(&mut client, "/", "").status, 200);
    let refused = get(&mut client, "/", "");
    let message = "Too Many Requests. We only allow 1 requests per hour for anonymous access.";
    assert_eq!((refused.status, &refused.json()["message"]), (429, &message.into()));
    assert_eq!(service.served(), 3);
}

/// What a browser adds for a page of another origin reaches the service through Envoy, and changes no decision.
#[test]
fn envoy_hands_on_what_browsers_send() {
    let tollway = tollway(&[(PER_ADDRESS, "1 requests / hour from first call")]);
    let service = Service::start();
    let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &[]);
    let browser = "origin: http://evil.example\r\nsec-fetch-site: cross-site\r\n";
    let statuses = [(); 2].map(|()| get(&mut envoy.client(), "/", browser).status);
    assert_eq!(statuses, [200, 429]);
}

/// B10: without Tollway, Envoy follows its `failure_mode_deny`.
#[test]
fn envoy_failure_mode_applies_without_tollway() {
    for (choice, status) in [("failure_mode_deny: true", 500), ("failure_mode_deny: false", 200)] {
        let tollway = tollway(&[]);
        let service = Service::start();
        let changes = [("failure_mode_deny: true", choice)];
        let envoy = Envoy::start(tollway.tcp(ListenerKind::Grpc), service.address(), &changes);
        assert_eq!(get(&mut envoy.client(), "/", "").status, 200);
        drop(tollway);
        assert_eq!(get(&mut envoy.client(), "/", "").status, status, "{choice}");
    }
}
