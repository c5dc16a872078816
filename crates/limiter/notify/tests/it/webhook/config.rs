//! From the config file to the receiver.

use std::time::Duration;

use tollway::{Config, Limiter};
use tollway_notify::webhook::WebhookError;

use crate::webhook::python::verify;
use crate::webhook::receiver::Receiver;

/// Cargo sets it for every test: a variable that a test need not set, which would be unsafe.
const SECRET_VARIABLE: &str = "CARGO_MANIFEST_DIR";

fn config(port: u16, variable: &str) -> String {
    format!(
        "policies.gemini.limits = ['5 requests / minute bucket']\n[incidents]\nfile = 'kept.jsonl'\n\
         webhook = 'http://127.0.0.1:{port}/token-in-path'\nsecret = {{ env = '{variable}' }}\n"
    )
}

/// G11: raised with its evidence, signed so that a receiver can check it, and kept in the file as well.
#[tokio::test]
async fn incident_of_a_limiter_arrives_signed() {
    let receiver = Receiver::start(&["503 Busy"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.toml");
    std::fs::write(&path, config(receiver.port, SECRET_VARIABLE)).unwrap();
    let limiter = Limiter::from_config(&path).await.unwrap();
    assert_eq!(tollway_notify::webhook::attach(&limiter), Ok(true));
    assert_eq!(tollway_notify::webhook::attach(&limiter), Ok(false), "once");
    let permit = limiter.take("gemini").subject("team-ä").await.unwrap();
    let incident = permit.refused_by_vendor("429 \"quoted\"").await.remove(0);
    drop(permit);
    limiter.close().await.unwrap();
    let received = receiver.wait_for(2).pop().unwrap();
    let body = received.json();
    assert_eq!(body["incident"], serde_json::to_value(&incident).unwrap());
    assert_eq!(
        (&body["incident"]["limits"][0]["used"], &body["incident"]["in_flight"]),
        (&1.into(), &1.into())
    );
    let (timestamp, signature) =
        (&received.headers["tollway-timestamp"], &received.headers["tollway-signature"]);
    let secret = std::env::var(SECRET_VARIABLE).unwrap();
    assert_eq!(verify(&secret, timestamp, signature, &received.body), 0);
    assert_eq!(verify("another", timestamp, signature, &received.body), 3);
    assert_eq!(verify(&secret, timestamp, signature, &received.body.replace("gemini", "notion")), 3);
    let kept = tollway::incident::IncidentFile::at(folder.path().join("kept.jsonl")).read().unwrap();
    assert_eq!(kept, [incident]);
}

#[test]
fn neither_url_nor_secret_is_shown() {
    let config = Config::parse(&config(1, "NOT_SET_HERE")).unwrap();
    let shown = format!("{config:?}");
    assert!(shown.contains("http://127.0.0.1:1/***") && !shown.contains("token-in-path"), "{shown}");
    let limiter = Limiter::builder().config(&config).unwrap().build();
    let error = tollway_notify::webhook::attach(&limiter).unwrap_err();
    assert!(matches!(error, WebhookError::Secret(_)), "{error:?}");
    assert!(error.to_string().contains("NOT_SET_HERE, which is not set"), "{error}");
}

/// A program that ends does not wait for a receiver that is away.
#[tokio::test]
async fn end_of_a_limiter_is_bounded() {
    let receiver = Receiver::start(&["503 Busy\r\nRetry-After: 60"]);
    let text = config(receiver.port, SECRET_VARIABLE).replace("kept.jsonl", "off");
    let limiter = Limiter::builder().config(&Config::parse(&text).unwrap()).unwrap().metrics().build();
    tollway_notify::webhook::attach(&limiter).unwrap();
    limiter.take("gemini").await.unwrap().refused_by_vendor("429").await;
    let closed = tokio::time::timeout(Duration::from_secs(30), limiter.close()).await;
    assert!(closed.is_ok_and(|closed| closed.is_ok()), "the receiver asked for a minute");
    receiver.wait_for(1);
}
