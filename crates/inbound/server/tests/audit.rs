//! Changes and wrong tokens in the log. A separate test binary, because it captures the log of the whole process.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/client.rs"]
mod client;
#[path = "it/log.rs"]
mod log;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/running.rs"]
mod running;

use std::time::Duration;

use log::Log;
use running::Setup;
use tollway_server::ClientTimeouts;

const WRITE: &str = "alice-alice-alice-alice";

/// T22, T23: every change says which token made it, for which subject or consumer, from what and to what; a wrong token is
/// one line a minute and address, and no line holds a token.
#[test]
fn changes_and_wrong_tokens_are_logged() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.subscriber()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, WRITE).unwrap();
    let mut setup = Setup::of(&format!(
        "[policies.api]\nlimits = ['5 requests / hour']\n[consumers]\nrecords = 'sqlite::memory:'\nper_minute = 7\n\
         [server.tokens.named.alice]\nrights = 'write'\ntoken = 'file:{}'",
        file.path().display()
    ));
    setup.timeouts = ClientTimeouts { wrong_token: Duration::ZERO, ..ClientTimeouts::default() };
    let server = setup.start();
    let mut admin = server.admin();
    let bearer = format!("authorization: Bearer {WRITE}\r\n");
    let mut change = |method: &str, path: &str, body: &str| {
        let answer = admin.ask(method, path, &bearer, body);
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer
    };
    server.client().take(r#"{"policy":"api","subject":"ann\u001b[2J","cost":{"requests":3}}"#);
    change("POST", "/v1/reset", r#"{"policy":"api","subject":"ann\u001b[2J"}"#);
    let limit = "/v1/policies/api/limits/requests_per_hour";
    change("PUT", limit, r#"{"to":"9 requests / hour"}"#);
    change("PUT", limit, r#"{"to":"0"}"#);
    change("DELETE", limit, "");
    let created = change("POST", "/v1/consumers/c1/records", r#"{"limits": {"per_minute": 100}}"#).json();
    let record = format!("/v1/consumers/c1/records/{}", created["id"].as_str().unwrap());
    change("PUT", &record, r#"{"limits": {"per_minute": 200}}"#);
    change("DELETE", &record, "");
    change("PUT", "/v1/consumers/c1/blocked", r#"{"blocked": true}"#);
    change("DELETE", "/v1/consumers/c1/usage", "");
    for _ in 0..5 {
        let wrong = "authorization: Bearer guess-guess-guess-guess\r\n";
        assert_eq!(server.admin().get("/v1/policies", wrong).status, 401);
    }
    drop(server);
    let log = log.text();
    let logged: Vec<&str> = log.lines().filter(|line| line.contains("by=alice at 127.0.0.1")).collect();
    for (what, words) in [
        ("usage was reset", &["ann\\u{1b}[2J", "from=\"3 requests_per_hour\"", "to=0"][..]),
        ("a limit was set", &["from=\"5 requests / hour\"", "to=\"9 requests / hour\"", "requests_per_hour"]),
        ("a limit was set", &["from=\"9 requests / hour\"", "to=\"0\""]),
        ("a limit was set", &["from=\"0\"", "to=\"5 requests / hour\""]),
        ("a record of a consumer was created", &["c1", "100"]),
        ("a record of a consumer was changed", &["c1", "from", "100", "to", "200"]),
        ("a record of a consumer was deleted", &["c1", "from", "200"]),
        ("a consumer was blocked or unblocked", &["c1", "from=false", "to=true"]),
        ("the counters of a consumer were reset", &["c1", "from"]),
    ] {
        let fits = |line: &&&str| line.contains(what) && words.iter().all(|word| line.contains(word));
        assert!(logged.iter().any(|line| fits(&line)), "{what} {words:?}: {logged:#?}");
    }
    assert_eq!(logged.len(), 9, "{logged:#?}");
    let wrong: Vec<&str> = log.lines().filter(|line| line.contains("wrong token")).collect();
    assert_eq!(wrong.len(), 1, "once a minute for an address: {wrong:?}");
    assert!(wrong[0].contains("WARN") && wrong[0].contains("127.0.0.1"), "{wrong:?}");
    assert!(!log.contains("guess-guess") && !log.contains(WRITE), "{log}");
    assert!(log.chars().all(|c| c == '\n' || !c.is_control()), "{log:?}");
}
