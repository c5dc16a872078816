//! Vendors that answer badly: bodies that do not come, connections that break.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use tollway_client::{ApiClient, CallFailure, RefusalKind};

use crate::limiter;

/// A server that answers each connection with these bytes, and then does nothing, or closes it.
fn raw_server(answer: &'static str, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4_096]);
            let _ = connection.write_all(answer.as_bytes());
            if !closes {
                open.push(connection);
            }
        }
    });
    url
}

const REFUSAL: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 600\r\ncontent-length: 100\r\n\r\nhalf";

/// A refusal is one also if its body does not come, or breaks off.
#[tokio::test]
async fn a_refusal_without_its_body_is_obeyed() {
    for closes in [false, true] {
        let url = raw_server(REFUSAL, closes);
        let limiter = limiter(&url, "limits = [\"1000 / hour\"]\ntimeout = \"500ms\"\nmax_retries = 0");
        let client = ApiClient::of(&limiter, "test").unwrap();
        let error = client.get("/").send().await.unwrap_err();
        assert!(matches!(error.failure, CallFailure::Refused), "{closes}: {error}");
        assert_eq!(error.refusal(), Some(RefusalKind::Rate), "{closes}: {error}");
        let snapshot = client.limiter().snapshot().await.unwrap();
        assert!(
            snapshot.cooldown_until.unwrap().since(snapshot.now) > tollway::Span::from_secs(500),
            "{closes}"
        );
        assert_eq!(snapshot.in_flight, 0);
    }
}

/// A caller that leaves while its refusal is being handled does not take the hold with it.
#[tokio::test]
async fn a_refusal_is_told_if_the_caller_leaves() {
    let url =
        raw_server("HTTP/1.1 429 Too Many Requests\r\nretry-after: 600\r\ncontent-length: 0\r\n\r\n", false);
    let limiter = limiter(&url, "limits = [\"1000 / hour\"]");
    let client = ApiClient::of(&limiter, "test").unwrap();
    // The budget of the call is ten minutes, so it waits for its next attempt.
    let left = tokio::time::timeout(
        Duration::from_millis(500),
        client.get("/").max_time(Duration::from_secs(900)).send(),
    );
    assert!(left.await.is_err());
    assert!(client.limiter().snapshot().await.unwrap().cooldown_until.is_some());
}
