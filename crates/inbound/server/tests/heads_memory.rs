//! Memory of a server whose clients let thousands of HTTP/2 requests wait, each with the largest head. A separate test binary,
//! because it measures the memory of the process.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/http2.rs"]
mod http2;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/log.rs"]
mod log;
#[allow(dead_code, reason = "shared with the other tests of the server")]
#[path = "it/running.rs"]
mod running;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tollway::core::{Answer, Operation, Store};
use tollway::{Config, Limiter};
use tollway_server::{ClientTimeouts, HEAD_BYTES_MAX, ListenerKind};

use http2::{END_HEADERS, END_STREAM, HEADERS, Raw, frame, stream};
use running::{Running, Setup};

const CONFIG: &str = "[policies.api]\nlimits = ['1000 / hour']\n[server]\nworkers = 1\n";

/// Requests that wait on one connection; the server allows 256.
const STREAMS: u32 = 250;

/// What the bodies of a worker may take; streams that wait for theirs count in it.
const BODIES_BYTES: usize = 64 << 20;

/// More than a waiting stream takes, and half of a head.
const STREAM_BYTES: usize = HEAD_BYTES_MAX / 2;

/// A store that is so slow that no request is answered.
struct SilentStore;

impl Store for SilentStore {
    fn apply(&self, _: &[Operation]) -> Answer {
        Answer::Later(Box::pin(std::future::pending()))
    }
}

/// A client that waits as long as the test takes.
fn setup() -> Setup {
    let mut setup = Setup::of(CONFIG);
    let long = Duration::from_secs(600);
    setup.timeouts =
        ClientTimeouts { head: long, idle: long, body: long, write: long, ..ClientTimeouts::default() };
    setup
}

/// Literal header fields without indexing, and a head that is as large as the server takes: by long values, or by many short
/// ones, which need more memory than they have bytes.
/// Each with the number of connections on which its memory would show.
fn heads(path: &str) -> [(usize, Vec<u8>); 2] {
    let literal = |name: &str, value: &str| {
        let mut field = vec![0];
        for text in [name, value] {
            // Seven bits of the length, then the others.
            match text.len() {
                short @ 0..=126 => field.push(short as u8),
                long => field.extend([127, ((long - 127) & 127) as u8 | 128, ((long - 127) >> 7) as u8]),
            }
            field.extend(text.as_bytes());
        }
        field
    };
    let start = [literal(":path", path), literal(":authority", "127.0.0.1")].concat();
    // Each field counts 32 bytes more than its text.
    let room = HEAD_BYTES_MAX - 300;
    let long = (0..room / 1_036).map(|n| literal(&format!("a{n:03}"), &"v".repeat(1_000)));
    let short = (0..room / 37).map(|n| literal(&format!("a{n:03}"), "v"));
    [
        (70, [start.clone(), long.flatten().collect()].concat()),
        (20, [start, short.flatten().collect()].concat()),
    ]
}

/// Opens connections on which all streams wait, and returns how much the memory of this process has grown.
fn growth(server: &Running, kind: ListenerKind, connections: usize, head: &[u8], flags: u8) -> usize {
    let before = resident();
    let opened: Vec<Raw> = (0..connections)
        .map(|_| {
            let mut raw = Raw::over(TcpStream::connect(server.tcp(kind)).unwrap()).unwrap();
            for number in 0..STREAMS {
                raw.frames(&[frame(HEADERS, END_HEADERS | flags, stream(number), head)]).unwrap();
            }
            raw.wait().unwrap();
            raw
        })
        .collect();
    let grown = resident().saturating_sub(before);
    drop(opened);
    grown
}

/// The memory that this process uses.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// T21: one address opens as many streams as it can, each with the largest head. They stay within the memory for bodies, also
/// while requests wait for the store.
#[test]
fn heads_of_waiting_requests_do_not_fill_the_memory() {
    let server = setup().start();
    // POST, http.
    for (connections, head) in heads("/v1/take") {
        let head = [&[0x83, 0x86], &head[..]].concat();
        let grown = growth(&server, ListenerKind::Decisions, connections, &head, 0);
        println!("{connections} connections that send no body: {} KiB", grown >> 10);
        // Also what connections need.
        assert!(grown < BODIES_BYTES * 5 / 4, "{grown} bytes");
    }
    assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
    drop(server);
    let mut slow = setup();
    let builder = Limiter::builder().store(Arc::new(SilentStore));
    slow.limiter =
        builder.config(&Config::parse("[policies.api]\nlimits = ['1000 / hour']").unwrap()).unwrap().build();
    let server = slow.start();
    // GET, http. Streams that wait for the store do not count in that memory, but keep no head either.
    for (connections, head) in heads("/v1/usage?policy=api") {
        let head = [&[0x82, 0x86], &head[..]].concat();
        let grown = growth(&server, ListenerKind::Administration, connections, &head, END_STREAM);
        println!("{connections} connections that wait for the store: {} KiB", grown >> 10);
        assert!(grown < connections * STREAMS as usize * STREAM_BYTES, "{grown} bytes");
    }
}
