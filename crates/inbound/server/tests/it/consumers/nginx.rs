//! Consumers behind a real nginx, with the configuration of `examples/nginx/consumers.conf`.

use serde_json::json;
use tollway_server::ListenerKind;

use super::bank::{CONSUMERS, WRITE};
use crate::client::{Answer, Client};
use crate::nginx_process::Nginx;
use crate::running::{Running, Setup};

const EXAMPLE: &str = include_str!("../../../../../../examples/nginx/consumers.conf");
const TOKEN: &str = "authorization: Bearer token-of-abc\r\n";

/// The example's config, with files in this folder and lower limits.
fn tollway(folder: &tempfile::TempDir) -> Running {
    let example = include_str!("../../../../../../examples/nginx/consumers.toml");
    let tokens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/nginx/consumer-tokens");
    let write = folder.path().join("write");
    std::fs::write(&write, WRITE).unwrap();
    let changes = [
        ("sqlite:consumers.db", format!("sqlite:{}/consumers.db", folder.path().display())),
        ("consumer-tokens", tokens.to_owned()),
        ("env:TOLLWAY_WRITE_TOKEN", format!("file:{}", write.display())),
        ("per_minute = 5", "per_hour = 2".to_owned()),
        ("anonymous_per_hour = 20", "anonymous_per_hour = 1".to_owned()),
    ];
    let config = changes.iter().fold(example.to_owned(), |config, (from, to)| {
        assert!(config.contains(from), "the example has no {from}");
        config.replace(from, to)
    });
    Setup::of(&config).start()
}

fn told<'a>(answer: &'a Answer, name: &str) -> (u16, Option<&'a str>) {
    (answer.status, answer.header(name))
}

fn set_blocked(admin: &mut Client, blocked: bool) {
    let (path, token) = (format!("{CONSUMERS}/abc/blocked"), format!("authorization: Bearer {WRITE}\r\n"));
    let set = admin.ask("PUT", &path, &token, &json!({"blocked": blocked}).to_string());
    assert_eq!(set.status, 200, "{set:?}");
}

/// C3, C5, B10: behind nginx a limited consumer gets 429 and the limit, a blocked one 403, an unknown token 401, each with
/// the documented text.
#[test]
fn nginx_forwards_consumer_denials() {
    let folder = tempfile::tempdir().unwrap();
    let tollway = tollway(&folder);
    let nginx = Nginx::start(EXAMPLE, tollway.tcp(ListenerKind::Decisions));
    let (mut client, mut admin) = (nginx.client(), tollway.admin());
    let granted = client.get("/", TOKEN);
    assert_eq!(
        (granted.body.as_str(), told(&granted, "x-rate-limit-remaining")),
        ("hello\n", (200, Some("1")))
    );
    assert_eq!(client.get("/forbidden", TOKEN).body, "the application says no\n");

    let limited = client.get("/", TOKEN);
    assert_eq!(told(&limited, "content-type"), (429, Some("application/json")), "{limited:?}");
    let message = "Too Many Requests. We only allow 2 requests per hour for this Consumer.";
    assert_eq!((&limited.json()["code"], &limited.json()["message"]), (&json!(429), &json!(message)));
    assert_eq!(told(&limited, "x-rate-limit-remaining"), (429, Some("0")));
    assert!(limited.header("retry-after").is_some(), "{limited:?}");

    set_blocked(&mut admin, true);
    let blocked = client.get("/", TOKEN);
    assert_eq!((blocked.status, &blocked.json()["type"]), (403, &json!("urn:tollway:blocked")));
    assert_eq!(blocked.header("retry-after"), None);
    set_blocked(&mut admin, false);
    assert_eq!(client.get("/", TOKEN).status, 429);

    let unknown = client.get("/", "authorization: Bearer unknown\r\n");
    assert_eq!(told(&unknown, "www-authenticate"), (401, Some("Bearer")));
}

/// C4, C5: without a token a caller counts by the address that nginx saw.
#[test]
fn callers_without_a_token_count_by_address_behind_nginx() {
    let folder = tempfile::tempdir().unwrap();
    let tollway = tollway(&folder);
    let nginx = Nginx::start(EXAMPLE, tollway.tcp(ListenerKind::Decisions));
    let mut client = nginx.client();
    assert_eq!(client.get("/", "").status, 200);
    let refused = client.get("/", "x-forwarded-for: 203.0.113.7\r\n");
    let message = "Too Many Requests. We only allow 1 requests per hour for anonymous access.";
    assert_eq!((refused.status, &refused.json()["message"]), (429, &json!(message)));
}
