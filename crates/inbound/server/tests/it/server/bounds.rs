//! Every bound, one beyond it, and all other invalid input: always a 4xx with an explanation.

use std::time::Instant;

use tollway_server::{
    ADMINISTRATION_CONNECTIONS_MAX, BODY_BYTES_MAX, HEAD_BYTES_MAX, TAKES_PER_BATCH_MAX, UNITS_PER_COST_MAX,
};

use crate::client::{Answer, Client};
use crate::running::{LONG, Running, Setup};

const POLICIES: &str = r#"
    [policies.api]
    limits = ["100 requests / hour", "100 tokens / hour"]
    [server]
    connections = 6
    connections_per_address = 4
"#;

fn check(answer: &Answer, status: u16, word: &str, about: &str) {
    assert_eq!(answer.status, status, "{about}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{about}");
    let problem = answer.json();
    assert_eq!(problem["status"], status, "{about}");
    assert!(problem["type"].as_str().unwrap().starts_with("urn:tollway:"), "{about}");
    assert!(problem["detail"].as_str().unwrap().contains(word), "{about}: {problem}");
}

/// T19: hostile bodies. None of them is a 5xx, none is charged, and each error says what is wrong.
#[test]
fn invalid_body_explains_itself() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    let long = |count: usize| "x".repeat(count);
    let many_units: Vec<String> = (0..=UNITS_PER_COST_MAX).map(|unit| format!("\"u{unit}\":1")).collect();
    let many_parties = vec![r#"{"policy":"api"}"#; 17].join(",");
    let deep = "[".repeat(10_000);
    for (body, status, word) in [
        (String::new(), 400, "EOF"),
        ("nonsense".to_owned(), 400, "expected"),
        ("{}".to_owned(), 400, "either `policy`"),
        ("null".to_owned(), 400, "null"),
        (r#"{"polcy":"api"}"#.to_owned(), 400, "unknown field `polcy`"),
        (r#"{"policy":"api","policy":"api"}"#.to_owned(), 400, "duplicate field"),
        (r#"{"policy":7}"#.to_owned(), 400, "integer"),
        (r#"{"policy":"api","all":[]}"#.to_owned(), 400, "either `policy`"),
        (r#"{"all":[{"policy":"api"}],"cost":{}}"#.to_owned(), 400, "either `policy`"),
        (r#"{"all":[]}"#.to_owned(), 422, "0 policies"),
        (format!("{{\"all\":[{many_parties}]}}"), 422, "17 policies"),
        (r#"{"all":[{"policy":"api"},{"policy":"api"}]}"#.to_owned(), 422, "twice"),
        (r#"{"policy":"apx"}"#.to_owned(), 404, "did you mean"),
        (r#"{"policy":"api","cost":{"requests":-1}}"#.to_owned(), 400, "-1"),
        (r#"{"policy":"api","cost":{"requests":1.5}}"#.to_owned(), 400, "1.5"),
        (r#"{"policy":"api","cost":{"requests":99999999999999999999}}"#.to_owned(), 400, "invalid"),
        (r#"{"policy":"api","cost":{"requests":18446744073709551615}}"#.to_owned(), 422, "largest amount"),
        (r#"{"policy":"api","cost":{"requests":101}}"#.to_owned(), 422, "never be granted"),
        (r#"{"policy":"api","cost":{"tokns":1}}"#.to_owned(), 422, "did you mean"),
        (r#"{"policy":"api","cost":{"tokens":1,"tokens":1}}"#.to_owned(), 400, "twice"),
        (format!("{{\"policy\":\"api\",\"cost\":{{{}}}}}", many_units.join(",")), 400, "units"),
        (r#"{"policy":"api","cost":[1]}"#.to_owned(), 400, "amounts by unit"),
        (r#"{"policy":"api","wait_ms":-5}"#.to_owned(), 400, "-5"),
        (format!("{{\"policy\":\"api\",\"subject\":\"{}\"}}", long(1_025)), 400, "1024"),
        (r#"{"policy":"api","subject":"a\u0000b"}"#.to_owned(), 400, "not allowed"),
        (format!("{{\"policy\":\"api\",\"id\":\"{}\"}}", long(129)), 400, "128"),
        (r#"{"policy":"api","subject":""}"#.to_owned(), 400, "leave it out to count for all callers"),
        (r#"{"all":[{"policy":"api","subject":""}]}"#.to_owned(), 400, "leave it out"),
        (r#"{"policy":"api","id":""}"#.to_owned(), 400, "empty"),
        (format!("[{}]", vec![r#"{"policy":"api"}"#; TAKES_PER_BATCH_MAX + 1].join(",")), 422, "101 takes"),
        (deep, 400, "invalid type"),
    ] {
        check(&client.take(&body), status, word, &body[..body.len().min(80)]);
    }
    assert_eq!(client.take(r#"{"policy":"api"}"#).json()["limits"][0]["remaining"], 99);
}

/// T19: a body of maximal length, and one byte longer, with a length and in chunks.
#[test]
fn body_over_the_bound_is_413() {
    let server = Running::of(POLICIES);
    let padded = |length: usize| {
        let take = r#"{"policy":"api"}"#;
        format!("{take}{}", " ".repeat(length - take.len()))
    };
    assert_eq!(server.client().take(&padded(BODY_BYTES_MAX)).status, 200);
    check(&server.client().take(&padded(BODY_BYTES_MAX + 1)), 413, "65536", "with a length");
    let mut chunked = server.client();
    chunked.write("POST /v1/take HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    chunked.write(format!("{:x}\r\n{}\r\n", BODY_BYTES_MAX + 1, padded(BODY_BYTES_MAX + 1))).unwrap();
    check(&chunked.answer().unwrap(), 413, "65536", "in chunks");
    let mut announced = server.client();
    announced.write("POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 99999999999\r\n\r\n").unwrap();
    check(&announced.answer().unwrap(), 413, "65536", "announced");
}

/// T19: heads that are too long, have too many headers, or are invalid.
#[test]
fn head_over_the_bound_is_rejected() {
    let server = Running::of(POLICIES);
    let many = "a: b\r\n".repeat(120);
    let long = format!("a: {}\r\n", "b".repeat(HEAD_BYTES_MAX));
    for (head, status) in [
        (format!("GET /openapi.json HTTP/1.1\r\nhost: test\r\n{many}\r\n"), 431),
        (format!("GET /openapi.json HTTP/1.1\r\nhost: test\r\n{long}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\nhost: test\r\n\r\n", "x".repeat(HEAD_BYTES_MAX)), 431),
        ("GET / HTTP/1.1\r\nhost: test\r\n\r\n".to_owned(), 404),
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nbad header: x\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
    ] {
        let mut client = server.client();
        // The server may close the connection during the write.
        let _ = client.write(&head);
        let about = &head[..head.len().min(80)];
        let answer = client.answer().unwrap_or_else(|error| panic!("{error}: {about:?}"));
        assert_eq!(answer.status, status, "{about:?}");
        // Only valid requests get a body.
        assert_eq!(answer.body.is_empty(), status != 404, "{about:?}: {answer:?}");
    }
    assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
}

/// T19: unknown paths and methods.
#[test]
fn unknown_path_and_method_list_the_known_ones() {
    let server = Running::of(POLICIES);
    let mut client = server.client();
    check(&client.get("/v1/tke", ""), 404, "/v1/take", "a path");
    let wrong = client.get("/v1/take", "");
    check(&wrong, 405, "POST", "a method");
    assert_eq!(wrong.header("allow"), Some("POST"));
    check(&client.get("/v1/take/", ""), 404, "/v1/take", "a slash too many");
    check(&client.get("/%00%ff/../v1/take", ""), 404, "/v1/take", "escapes");
}

fn served(client: &mut Client) -> bool {
    succeeds(client, "POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 16\r\n\r\n{\"policy\":\"api\"}")
}

fn administered(client: &mut Client) -> bool {
    succeeds(client, "GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
}

/// False if the connection is refused.
fn succeeds(client: &mut Client, request: &str) -> bool {
    client.write(request).is_ok() && client.answer().is_ok_and(|answer| answer.status == 200)
}

/// T19, T21: a client at its connection limit gets the next one closed at once; closing one frees a slot.
#[test]
fn connections_per_address_are_limited() {
    let server = Running::of(POLICIES);
    let mut held: Vec<Client> = (0..4).map(|_| server.client()).collect();
    assert!(held.iter_mut().all(served));
    assert!(!served(&mut server.client()));
    held.pop();
    let begun = Instant::now();
    while !served(&mut server.client()) {
        assert!(begun.elapsed() < LONG, "the slot of a closed connection is not free");
    }
}

/// T21: at the total limit, further connections wait for a free slot and are served then.
#[test]
fn connections_over_the_total_limit_wait() {
    let mut setup = Setup::of(POLICIES);
    setup.config.connections_per_address = 100;
    let server = setup.start();
    let mut held: Vec<Client> = (0..6).map(|_| server.client()).collect();
    assert!(held.iter_mut().all(served));
    let mut waiting = server.client();
    waiting
        .write("POST /v1/take HTTP/1.1\r\nhost: test\r\ncontent-length: 16\r\n\r\n{\"policy\":\"api\"}")
        .unwrap();
    held.pop();
    assert_eq!(waiting.answer().unwrap().status, 200);
}

/// T21: connections for decisions do not use up those for administration.
#[test]
fn administration_works_at_the_decision_connection_limit() {
    let mut setup = Setup::of(POLICIES);
    setup.config.connections_per_address = 100;
    let server = setup.start();
    let mut held: Vec<Client> = (0..6).map(|_| server.client()).collect();
    assert!(held.iter_mut().all(served));
    // One more is accepted, and waits for a slot.
    let _waiting = server.client();
    for path in ["/health", "/ready", "/v1/policies"] {
        assert_eq!(server.admin().get(path, "").status, 200, "{path}");
    }
}

/// T21: administration has a connection limit, too, and one client gets half of it: then its connection that has been idle
/// longest yields to a new one.
#[test]
fn longest_idle_administration_connection_yields() {
    let server = Running::of(POLICIES);
    let mut held: Vec<Client> = (0..ADMINISTRATION_CONNECTIONS_MAX / 2).map(|_| server.admin()).collect();
    assert!(held.iter_mut().all(administered));
    let mut newer = server.admin();
    assert_eq!(newer.get("/v1/policies", "").status, 200);
    assert_eq!(held.iter_mut().filter_map(|client| client.is_closed().then_some(())).count(), 1);
    assert!(administered(&mut newer) && served(&mut server.client()));
}

/// T21: idle connections of several addresses do not keep health checks and operators out.
#[test]
fn administration_is_reachable_through_a_crowd_of_idle_connections() {
    let mut setup = Setup::of(POLICIES);
    // One trusted network stands for many addresses: only the total counts.
    setup.config.address.trust = tollway_inbound::address::Trust::Networks {
        networks: vec!["127.0.0.0/8".parse().unwrap()],
        unix: false,
    };
    let server = setup.start();
    // Half of them never send a byte.
    let mut held: Vec<Client> = (0..2 * ADMINISTRATION_CONNECTIONS_MAX).map(|_| server.admin()).collect();
    held.iter_mut().step_by(2).for_each(|client| {
        administered(client);
    });
    for path in ["/health", "/ready", "/v1/policies"] {
        assert_eq!(server.admin().get(path, "").status, 200, "{path}");
    }
}

/// T21: with a request in flight on every connection, health is still answered, and nothing else.
#[test]
fn health_has_connections_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "write-write-write-write").unwrap();
    let mut setup = Setup::of(POLICIES);
    setup.config.write_token = Some(tollway_server::Token::File(token));
    setup.timeouts.body = LONG;
    let server = setup.start();
    let bearer = "authorization: Bearer write-write-write-write\r\n";
    // The body is missing, so each stays in flight; the server answers `expect` when it waits for the body.
    let begin = format!(
        "POST /v1/reset HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\nexpect: 100-continue\r\n{bearer}\r\n"
    );
    let mut busy: Vec<Client> = (0..ADMINISTRATION_CONNECTIONS_MAX / 2).map(|_| server.admin()).collect();
    for client in &mut busy {
        client.write(&begin).unwrap();
        assert_eq!(client.answer().unwrap().status, 100);
    }
    for path in ["/health", "/ready"] {
        assert_eq!(server.admin().get(path, "").status, 200, "{path}");
    }
    let refused = server.admin().get("/v1/policies", bearer);
    check(&refused, 503, "/health", "an operator");
    busy.pop();
    let begun = Instant::now();
    while server.admin().get("/v1/policies", bearer).status != 200 {
        assert!(begun.elapsed() < LONG, "the slot of a closed connection is not free");
    }
}

/// T17, T21: a proxy in `trusted_networks` has no limit per address. `trusted_hops` exempts no peer, since a client that
/// bypasses the proxies looks like one.
#[test]
fn only_trusted_networks_exceed_the_connection_limit() {
    let of = |trust: &str| Running::of(&format!("{POLICIES}\n[server.address]\n{trust}"));
    let named = of("trusted_networks = ['127.0.0.0/8']");
    let mut held: Vec<Client> = (0..5).map(|_| named.client()).collect();
    assert!(held.iter_mut().all(served));
    let hops = of("trusted_hops = 1");
    let mut held: Vec<Client> = (0..4).map(|_| hops.client()).collect();
    assert!(held.iter_mut().all(served));
    assert!(!served(&mut hops.client()));
}
