//! The HTTP handler against a server that answers what the job asks for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use tollway::Limiter;
use tollway_core::Span;
use tollway_pipeline::handler::{Answer, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{Engine, HandlerConfig, HttpConfig, NewJob, SqliteEngine, StageConfig, State};

use super::{chain, jobs, name, stage};

/// Answers every request with the status that its body is, and 200 with an output.
fn status(body: &str) -> String {
    let output = if body == "200" { r#"{"outputs": [{"data": {"b": 1, "a": 2}}]}"# } else { "" };
    let after = if matches!(body, "429" | "503") { "retry-after: 3600\r\n" } else { "" };
    format!("HTTP/1.1 {body} X\r\n{after}content-length: {}\r\n\r\n{output}", output.len())
}

/// Answers each request with the response to its body. One request a connection. Returns its URL.
pub(super) fn serve(listener: TcpListener, respond: fn(&str) -> String) -> String {
    let url = format!("http://{}/job", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let response = respond(str::from_utf8(&body).unwrap());
            let _ = stream.write_all(response.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes());
        }
    });
    url
}

/// P9: 2xx is done, 429 and 503 use no try, other 4xx are dead, 5xx are retried.
#[tokio::test]
async fn status_is_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap());
    let limiter = Limiter::builder().build();
    let now = limiter.clock().now();
    let statuses = ["200", "204", "429", "503", "400", "500"];
    let new = statuses.map(|status| NewJob::new(&name("a"), status, status).unwrap());
    engine.enqueue(new.to_vec(), now).await.unwrap();
    let url = serve(TcpListener::bind("127.0.0.1:0").unwrap(), status);
    let posts =
        StageConfig { handler: Some(HandlerConfig::Http(HttpConfig::new(url))), tries: 2, ..stage("a") };
    let mut builder = Runner::builder(engine.clone(), limiter);
    for stage in chain(vec![posts, stage("b")]) {
        builder = builder.stage(stage);
    }
    let runner = builder.handler("b", handler_fn(async |_| Answer::done())).start().await.unwrap();
    let found = loop {
        let found = jobs(&engine).await;
        let settled = |key: &str, state| found.iter().any(|job| job.key == key && job.state == state);
        if settled("500", State::Dead)
            && settled("503", State::Delayed)
            && settled("429", State::Delayed)
            && settled("400", State::Dead)
            && settled("200>a.0", State::Done)
        {
            break found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let of = |key: &str| found.iter().find(|job| job.key == key).unwrap();
    assert_eq!(of("200>a.0").data, r#"{"b": 1, "a": 2}"#);
    assert_eq!((of("200").state, of("204").state), (State::Done, State::Done));
    for key in ["429", "503"] {
        assert_eq!((of(key).failures, of(key).rate_limited), (0, 1));
        assert!(of(key).due_at.since(now) >= Span::from_mins(59));
    }
    assert_eq!((of("400").failures, of("500").failures), (1, 2));
    runner.drain(Span::ZERO).await.unwrap();
}
