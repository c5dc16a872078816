//! Golden bytes of what the server sends and signs: bodies of takes, headers of authorizations, Envoy's messages, permits.
//!
//! The clock and the secret are fixed. `UPDATE_GOLDEN=1` rewrites the expected files. Masked: a permit's random id, and the
//! signature over it, which is computed and compared here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sha2::Sha256;
use tokio::sync::oneshot;
use tollway::Limiter;
use tollway::core::Timestamp;
use tollway_server::{ConfigWithServer, ListenAddress, ListenerKind, Listeners, Server};
use tollway_testkit::ManualClock;
use tollway_testkit::golden::{compare, hex};

const SECRET: [u8; 32] = [7; 32];

const CONFIG: &str = r#"
    [policies.api]
    limits = ["rpm: 2 requests / minute", "500 tokens / hour from first call"]
    [policies.paced]
    limits = ["1 / hour bucket"]
    max_wait = "1d"
    [policies.watched]
    limits = ["1 / day"]
    shadow = true
    [server]
    headers = ["x-rate-limit", "ratelimit"]
    [[server.descriptors]]
    domain = "edge"
    keys = ["user"]
    policy = "api"
"#;

/// Compares with `tests/golden/bytes/NAME`.
fn golden(name: &str, found: &str) {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bytes").join(name), found);
}

/// A server on free ports, with its clock fixed at 2026-01-15T12:00:00Z.
struct Running {
    decisions: SocketAddr,
    admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let config = ConfigWithServer::parse(CONFIG).unwrap();
                let mut server = config.server().cloned().unwrap();
                let any = || ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
                (server.listen, server.admin) = (any(), Some(any()));
                let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_768_478_400)));
                let builder = Limiter::builder().metrics().config(config.limits()).unwrap();
                let limiter = builder.clock(clock).build();
                limiter.shared_secrets(SECRET).await.unwrap();
                let listeners = Listeners::bind(&server).await.unwrap();
                let server = Arc::new(Server::new(limiter, &server).await.unwrap());
                tell.send(listeners.addresses()).unwrap();
                server.serve(listeners, async { drop(stopped.await) }).await.unwrap();
            });
        });
        let addresses = told.recv().unwrap();
        let address = |kind| match addresses.iter().find(|(known, _)| *known == kind) {
            Some((_, ListenAddress::Tcp(address))) => *address,
            other => panic!("{other:?}"),
        };
        let (decisions, admin) = (address(ListenerKind::Decisions), address(ListenerKind::Administration));
        Self { decisions, admin, stop: Some(stop), thread: Some(thread) }
    }

    /// The whole response as text, without its date.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        exchange(self.decisions, method, path, body)
    }

    /// The response to a gRPC call: its message with the five-byte prefix, and its status.
    fn call(&self, path: &str, message: &[u8]) -> String {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = Full::new(Bytes::from([&[0][..], &length, message].concat()));
        let request = hyper::Request::post(format!("http://test{path}"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let request = request.body(body).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(self.decisions).await.unwrap();
            let io = TokioIo::new(stream);
            let (mut send, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            let (head, body) = send.send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            let status = trailers.get("grpc-status").or(head.headers.get("grpc-status"));
            let status = status.unwrap().to_str().unwrap().to_owned();
            format!("grpc-status {status}\n{}\n", hex(&body.to_bytes()))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
    stream.get_mut().write_all((head + body).as_bytes()).unwrap();
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the server closed the connection");
        let line = line.trim_end();
        if let Some(digits) = line.to_lowercase().strip_prefix("content-length: ") {
            length = digits.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
        if !line.starts_with("date: ") && !line.starts_with("content-length: ") {
            writeln!(text, "{line}").unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap() + "\n"
}

/// The permit in a response.
fn permit(answer: &str) -> &str {
    answer.split_once("\"permit\":\"").unwrap().1.split_once('"').unwrap().0
}

/// Removes title and detail of a problem, whose wording may change.
fn without_sentences(answer: String) -> String {
    match answer.split_once(",\"title\":") {
        Some((before, _)) => format!("{before},SENTENCES\n"),
        None => answer,
    }
}

fn signature(bytes: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap();
    mac.update(bytes);
    mac.finalize().into_bytes()[..16].to_vec()
}

/// A permit in hexadecimal, its id and its signature masked. The signature must be the secret's.
fn masked(permit: &str) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(permit).unwrap();
    let (signed, tag) = bytes.split_at(bytes.len() - 16);
    assert_eq!(tag, signature(signed), "signed with the shared secret");
    format!("{}ID{}SIGNATURE", hex(&signed[..2]), hex(&signed[18..]))
}

#[test]
fn take_responses_match_the_golden_bytes() {
    let server = Running::start();
    let mut text = String::new();
    for question in [
        r#"{"policy":"api","subject":"ann","cost":{"tokens":120}}"#,
        r#"{"policy":"api","subject":"ann","id":"call-1"}"#,
        r#"{"policy":"api","subject":"ann"}"#,
        r#"{"policy":"paced"}"#,
        r#"{"policy":"paced","wait_ms":7200000}"#,
        r#"{"all":[{"policy":"api","subject":"bob"},{"policy":"watched"}]}"#,
        r#"{"all":[{"policy":"api","subject":"bob"},{"policy":"watched"}]}"#,
        r#"{"all":[{"policy":"api","subject":"bob"},{"policy":"watched"}]}"#,
        r#"[{"policy":"api","subject":"eve"},{"policy":"paced"}]"#,
        r#"{"policy":"api","cost":{"tokens":501}}"#,
        r#"{"policy":"unknown"}"#,
        r#"{"policy":"#,
    ] {
        let answer = server.ask("POST", "/v1/take", question);
        let answer = match answer.contains("\"permit\":\"") {
            true => answer.replace(permit(&answer), &masked(permit(&answer))),
            false => answer,
        };
        writeln!(text, "POST /v1/take {question}\n{}", without_sentences(answer)).unwrap();
    }
    golden("takes.txt", &text);
}

/// A fixed permit, signed as by another server, is accepted and encodes to the same bytes.
#[test]
fn signed_permits_match_the_golden_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bytes/permit.hex");
    let bytes = fixed_permit();
    compare(&path, hex(&bytes) + "\n");
    assert_eq!(tollway_server::fuzz::ticket(&bytes), Some(bytes.clone()), "read and written again");
    let permit = URL_SAFE_NO_PAD.encode([&bytes[..], &signature(&bytes)].concat());
    let server = Running::start();
    let mut text = format!("{permit}\n");
    for (word, more) in
        [("begin", ""), ("renew", ""), ("settle", r#","cost":{"tokens":90}"#), ("return", ""), ("done", "")]
    {
        let answer = server.ask("POST", &format!("/v1/{word}"), &format!(r#"{{"permit":"{permit}"{more}}}"#));
        let answer = match answer.contains("\"permit\":\"") {
            true => answer.replace(self::permit(&answer), &masked(self::permit(&answer))),
            false => answer,
        };
        writeln!(text, "POST /v1/{word} {more}\n{answer}").unwrap();
    }
    golden("permits.txt", &text);
}

/// Version, flags, id, three times, and two policies with subject and units; numbers are big-endian, strings are
/// length-prefixed.
fn fixed_permit() -> Vec<u8> {
    let mut bytes = vec![1, 0];
    bytes.extend(0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128.to_be_bytes());
    for seconds in [1_768_478_390_u64, 1_768_478_390, 1_768_478_460] {
        bytes.extend((seconds * 1_000_000).to_be_bytes());
    }
    bytes.push(2);
    for (policy, subject, cost) in
        [("api", "ann", &[("requests", 1_u64), ("tokens", 120)][..]), ("paced", "ß", &[("requests", 1)][..])]
    {
        for text in [policy, subject] {
            bytes.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.push(u8::try_from(cost.len()).unwrap());
        for (unit, amount) in cost {
            bytes.extend(u16::try_from(unit.len()).unwrap().to_be_bytes());
            bytes.extend(unit.as_bytes());
            bytes.extend(amount.to_be_bytes());
        }
    }
    bytes
}

#[test]
fn authorize_responses_match_the_golden_bytes() {
    let server = Running::start();
    let mut text = String::new();
    // Granted twice, then denied.
    let api = "/v1/authorize?policy=api";
    for path in [api, api, api, "/v1/authorize?policy=api&deny=403", "/v1/authorize?policy=unknown"] {
        let answer = without_sentences(server.ask("GET", path, ""));
        writeln!(text, "GET {path}\n{answer}").unwrap();
    }
    golden("authorizations.txt", &text);
}

/// Envoy's rate limit service, as bytes.
#[test]
fn envoy_messages_match_the_golden_bytes() {
    let server = Running::start();
    // domain: "edge", descriptors: [{entries: [{key: "user", value: "ann"}]}]
    let question = b"\x0a\x04edge\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ann";
    let unknown = b"\x0a\x04edge\x12\x0d\x0a\x0b\x0a\x04team\x12\x03ann";
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let answers = [&question[..], question, question, unknown].map(|question| server.call(path, question));
    golden("envoy.txt", &answers.concat());
}

/// Names, kinds and labels of every series of `/metrics`. Values depend on the machine, and help texts may change.
#[test]
fn metric_series_match_the_golden_file() {
    let server = Running::start();
    for _ in 0..3 {
        server.ask("POST", "/v1/take", r#"{"policy":"api","subject":"ann"}"#);
    }
    let answer = exchange(server.admin, "GET", "/metrics", "");
    let (head, series) = answer.split_at(answer.find("# ").unwrap());
    let told = series.lines().filter(|line| !line.starts_with("# HELP"));
    let names = told.map(|line| match line.starts_with('#') {
        true => format!("{line}\n"),
        false => format!("{}\n", line.rsplit_once(' ').map_or(line, |(series, _)| series)),
    });
    golden("metrics.txt", &(head.to_owned() + &names.collect::<String>()));
}
