//! Untrusted text is escaped in logs and responses. A separate test binary, because it captures the log of the whole
//! process.
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

use serde_json::json;

use log::Log;
use running::Setup;
use tollway_server::Token;

/// The write token.
const WRITE: &str = "write-write-write-write";

/// T23: a caller's text cannot inject terminal escapes or log lines, at any log level.
#[test]
fn hostile_text_is_escaped_in_logs_and_responses() {
    // Global, because workers log on their own threads.
    let log = Log::default();
    tracing::subscriber::set_global_default(log.subscriber()).unwrap();
    let mut setup = Setup::of(
        "[policies.api]\nlimits = [\"1 / hour\"]\n[server.authorize]\nsubject_headers = [\"x-key\"]",
    );
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&token, WRITE).unwrap();
    setup.config.write_token = Some(Token::File(token.path().to_owned()));
    let server = setup.start();
    let mut client = server.client();
    let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nERROR forged line\u{202e}\u{0}";
    let escaped = hostile.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let mut answers = Vec::new();
    for body in [
        json!({ "policy": hostile }),
        json!({ "policy": "api", "subject": hostile }),
        json!({ "policy": "api", "subject": "SECRET-SUBJECT\u{1b}[2J" }),
        json!({ "policy": "api", "id": hostile }),
        json!({ "policy": "api", "cost": { hostile: 1 } }),
        json!({ hostile: 1 }),
        json!({ "permit": hostile }),
    ] {
        answers.push(client.take(&body.to_string()));
        answers.push(client.post("/v1/settle", &body.to_string()));
    }
    answers.push(client.get(&format!("/v1/authorize?policy={escaped}"), ""));
    answers.push(client.get(&format!("/{escaped}"), ""));
    answers.push(client.get("/v1/authorize?policy=api", "x-key: SECRET-SUBJECT\u{9b}2J\r\n"));
    answers.push(server.admin().get(&format!("/v1/usage?policy={escaped}"), ""));
    // Hands on the name of its own client, twice.
    for _ in 0..2 {
        let mut proxy = server.client();
        proxy.write("GET /v1/authorize?policy=api HTTP/1.1\r\nhost: shop.example\u{9b}\r\n\r\n").unwrap();
        answers.push(proxy.answer().unwrap());
    }
    // Two of these requests are logged: a reset, with its subject, and bytes that are not HTTP.
    let reset = json!({ "policy": "api", "subject": "RESET-SUBJECT\u{1b}[2J" });
    let bearer = format!("authorization: bearer {WRITE}\r\n");
    assert_eq!(server.admin().ask("POST", "/v1/reset", &bearer, &reset.to_string()).status, 204);
    let mut broken = server.client();
    broken.write(format!("GET / {hostile}\r\n\r\n")).unwrap();
    broken.closed();
    for answer in &answers {
        assert!(answer.status < 500, "{answer:?}");
        let text = answer.body.chars();
        assert!(text.into_iter().all(|c| !c.is_control()), "{answer:?}");
    }
    drop(server);
    let log = log.text();
    for logged in ["usage was reset", "RESET-SUBJECT\\u{1b}[2J", "a connection ended badly"] {
        assert!(log.contains(logged), "{logged:?} was not logged, so nothing was tested: {log:?}");
    }
    let unknown_host = "a proxy asks under a name that this server does not know";
    assert_eq!(log.matches(unknown_host).count(), 1, "once a minute: {log}");
    assert!(log.chars().all(|c| c == '\n' || !c.is_control()), "{log:?}");
    assert!(!log.lines().any(|line| line.starts_with("ERROR forged")), "{log}");
    assert!(!log.contains("SECRET-SUBJECT"), "subjects of takes must not be logged: {log}");
}
