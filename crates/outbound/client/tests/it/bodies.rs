//! What is read of a body before its reader gets it: refusals, and nothing of a stream. Waits in headers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use tollway::Limiter;
use tollway_client::{ApiClient, Attempts, RefusalKind};

use crate::limiter;

/// A generous timeout for anything that should happen; far below the one of an attempt.
const LONG: Duration = Duration::from_secs(30);

/// A server that answers its connections with these texts in turn, keeps them open and sends nothing more.
fn server(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        let mut answers = answers.into_iter();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4_096]);
            let _ = connection.write_all(answers.next().unwrap_or_default().as_bytes());
            open.push(connection);
        }
    });
    url
}

/// An answer with a length.
fn sized(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// The beginning of an answer in chunks that does not end.
fn endless(status: &str, kind: &str, chunk: &str) -> String {
    let length = chunk.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{chunk}\r\n"
    )
}

const OK: &str = "content-type: application/json\r\n";

fn limiter_at(answers: Vec<String>) -> Limiter {
    limiter(&server(answers), "limits = [\"1000 / second\"]\ntimeout = \"10m\"")
}

fn client(answers: Vec<String>) -> ApiClient {
    ApiClient::of(&limiter_at(answers), "test").unwrap()
}

async fn is_held(client: &ApiClient) -> bool {
    client.limiter().snapshot().await.unwrap().cooldown_until.is_some()
}

/// D1: the reader of a stream gets what came, also if a hook looks at bodies.
#[tokio::test]
async fn the_first_bytes_of_a_stream_are_not_held_back() {
    for (kind, chunk) in [
        ("application/x-ndjson", "{\"ok\":false}\n"),
        ("text/event-stream", "data: {\"ok\":false}\n\n"),
        ("application/json", "{\"id\": 1}\n"),
        ("application/json", "[{\"ok\": false"),
        ("application/json", "{\"ok\": false, \"error\": \"rate"),
        ("application/xml", "<Error><Code>Slow"),
        ("application/octet-stream", "{\"ok\":false"),
        ("text/plain", "tick"),
    ] {
        for asks in [false, true] {
            let limiter = limiter_at(vec![endless("200 OK", kind, chunk)]);
            let builder = ApiClient::builder("test").limiter(&limiter);
            let builder = if asks { builder.refused_as(|_| None) } else { builder };
            let client = builder.build().unwrap();
            let first = async {
                let mut response = client.get("/").send().await.unwrap();
                response.chunk().await.unwrap().unwrap()
            };
            let first = tokio::time::timeout(LONG, first).await;
            assert_eq!(first.unwrap_or_else(|_| panic!("{kind} {chunk} {asks}")), chunk.as_bytes());
        }
    }
}

/// D1: without a profile, refusals inside a 200 are seen, whole or in chunks.
#[tokio::test]
async fn refusals_inside_a_success_are_seen() {
    for body in [
        r#"{"ok": false, "error": "ratelimited"}"#,
        r#"{"errors": [{"extensions": {"code": "THROTTLED"}}], "extensions": {}}"#,
    ] {
        for answer in [sized("200 OK", OK, body), endless("200 OK", "application/json; charset=utf-8", body)]
        {
            let client = client(vec![answer]);
            let error = client.get("/").max_retries(0).send().await.unwrap_err();
            assert_eq!(error.refusal(), Some(RefusalKind::Rate), "{error}");
            assert!(is_held(&client).await, "{body}");
        }
    }
}

/// The same words in the data of an answer are the caller's.
#[tokio::test]
async fn an_answer_with_the_words_of_a_refusal_is_passed_on() {
    for body in [
        r#"{"ok": true, "messages": [{"ok": false, "error": "ratelimited"}], "error": "ratelimited"}"#,
        r#"{"data": {"errors": [{"extensions": {"code": "THROTTLED"}}]}}"#,
        r#"[{"ok": false, "error": "ratelimited"}]"#,
        r#"{"__type": "ThrottlingException"}"#,
    ] {
        let client = client(vec![sized("200 OK", OK, body)]);
        let response = client.get("/").send().await.unwrap();
        assert_eq!(response.text().await.unwrap(), body);
        assert!(!is_held(&client).await, "{body}");
    }
}

/// D2: a wait on a server's error holds all calls. The answer is the caller's, whose status is no backoff code.
#[tokio::test]
async fn a_wait_on_a_servers_error_holds_all_calls() {
    for status in ["500 Internal Server Error", "503 Service Unavailable", "423 Locked"] {
        let client = client(vec![sized(status, "retry-after: 600\r\n", "")]);
        let response = client.get("/").send().await.unwrap();
        assert!(status.starts_with(response.status().as_str()));
        assert!(is_held(&client).await, "{status}");
    }
}

/// D2: overload has a status of its own, which is sent again.
#[tokio::test]
async fn an_overload_is_sent_again() {
    let overload = r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
    let client = client(vec![sized("529 Overloaded", OK, overload), sized("200 OK", OK, "{}")]);
    let response = client.get("/").send().await.unwrap();
    let attempts = Attempts::of(response.extensions());
    assert_eq!((attempts.len(), attempts[0].refusal), (2, Some(RefusalKind::Overload)));
}

/// D2: a lock, and a wait on a status that is about this call, delay this call alone.
#[tokio::test]
async fn a_wait_of_one_call_holds_no_other() {
    let lock =
        r#"{"error": {"code": "lock_timeout", "message": "This object cannot be accessed right now"}}"#;
    for refusal in [
        sized("429 Too Many Requests", OK, lock),
        sized("409 Conflict", "retry-after-ms: 700\r\n", ""),
        sized("404 Not Found", "retry-after-ms: 700\r\n", ""),
    ] {
        let client = client(vec![refusal, sized("200 OK", OK, "{}")]);
        let response = client.get("/").send().await.unwrap();
        let attempts = Attempts::of(response.extensions());
        assert_eq!((response.status().as_u16(), attempts.len()), (200, 2));
        assert_eq!(attempts[0].refusal, Some(RefusalKind::Lock));
        assert!(attempts[1].at.since(attempts[0].at) >= tollway::Span::from_millis(500), "{attempts:?}");
        assert!(!is_held(&client).await);
    }
}

/// Such an answer is the caller's if the call may not be sent again, or not so late.
#[tokio::test]
async fn the_last_answer_with_a_wait_is_the_callers() {
    let conflict = |wait: &str| sized("409 Conflict", &format!("retry-after: {wait}\r\n"), "taken");
    for (wait, retries) in [("1", 0), ("3600", 5)] {
        let client = client(vec![conflict(wait)]);
        let response = client.get("/").max_retries(retries).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (409, "taken"));
    }
}
