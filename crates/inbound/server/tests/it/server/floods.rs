//! HTTP/2 floods: the server closes the flooding connection, while a good client is served.

use std::net::TcpStream;
use std::time::Duration;

use tollway_server::{ClientTimeouts, ListenerKind};

use crate::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GET, HEADERS, PING, POST, RST_STREAM, Raw, SETTINGS,
    WINDOW_UPDATE, frame, stream,
};
use crate::running::{Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"1000000 requests / hour\"]";

fn server() -> Running {
    let mut setup = Setup::of(POLICIES);
    let second = Duration::from_secs(1);
    setup.timeouts = ClientTimeouts {
        head: second,
        idle: second,
        body: second,
        write: second,
        ..ClientTimeouts::default()
    };
    setup.start()
}

/// T21: the flood is cut off, and a good client is served during and after it.
fn is_survived(flood: impl FnOnce(Raw) + Send) {
    let server = server();
    std::thread::scope(|scope| {
        let raw = Raw::over(TcpStream::connect(server.tcp(ListenerKind::Decisions)).unwrap()).unwrap();
        let flooding = scope.spawn(move || flood(raw));
        let mut served = 0;
        while !flooding.is_finished() || served == 0 {
            assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
            served += 1;
        }
        flooding.join().unwrap();
    });
    assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
}

/// T21: CVE-2023-44487.
#[test]
fn rapid_reset() {
    is_survived(|raw| {
        raw.flood(|number| {
            let opened = frame(HEADERS, END_STREAM | END_HEADERS, stream(number), GET);
            vec![opened, frame(RST_STREAM, 0, stream(number), &8u32.to_be_bytes())]
        });
    });
}

/// T21: CVE-2025-8671: the client makes the server reset its streams.
#[test]
fn made_you_reset() {
    is_survived(|raw| {
        raw.flood(|number| {
            let opened = frame(HEADERS, END_HEADERS, stream(number), POST);
            // The server resets a stream whose window overflows.
            let update = frame(WINDOW_UPDATE, 0, stream(number), &0x7fff_ffffu32.to_be_bytes());
            vec![opened, update.clone(), update]
        });
    });
}

/// T21: RUSTSEC-2024-0332.
#[test]
fn continuation_without_end() {
    is_survived(|raw| {
        raw.flood(|number| match number {
            0 => vec![frame(HEADERS, 0, 1, GET)],
            // A literal header that is never indexed: `a: b`.
            _ => vec![frame(CONTINUATION, 0, 1, &[0x10, 1, b'a', 1, b'b'])],
        });
    });
}

/// T21: a header list that grows beyond its bound.
#[test]
fn headers_without_bound() {
    is_survived(|raw| {
        let value = [b'v'; 100];
        let header = [&[0x10, 1, b'a', 100][..], &value].concat();
        raw.flood(|number| match number {
            0 => vec![frame(HEADERS, 0, 1, GET)],
            _ => vec![frame(CONTINUATION, 0, 1, &header.repeat(100))],
        });
    });
}

/// T21: RUSTSEC-2026-0258 and its kind: empty frames.
#[test]
fn empty_data_without_end() {
    is_survived(|raw| {
        raw.flood(|number| match number {
            0 => vec![frame(HEADERS, END_HEADERS, 1, POST)],
            _ => vec![frame(DATA, 0, 1, &[]); 100],
        });
    });
}

/// T21: frames that the server must acknowledge although they are not requests.
#[test]
fn pings_and_settings_without_end() {
    is_survived(|raw| raw.flood(|_| vec![frame(PING, 0, 0, &[0; 8]); 100]));
    is_survived(|raw| raw.flood(|_| vec![frame(SETTINGS, 0, 0, &[]); 100]));
}

/// T21: more streams than allowed.
#[test]
fn streams_without_bound() {
    is_survived(|raw| raw.flood(|number| vec![frame(HEADERS, END_HEADERS, stream(number), POST)]));
}
