//! HTTP/2 floods: each ends with the connection of whoever sends it, while a good client is served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollway_server::{Door, Patience};

use crate::running::{LONG, Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"1000000 requests / hour\"]";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET /` and `POST /` over http, by the static table of HPACK.
const GET: &[u8] = &[0x82, 0x86, 0x84];
const POST: &[u8] = &[0x83, 0x86, 0x84];

/// A connection that speaks HTTP/2 frame by frame.
struct Raw(TcpStream);

impl Raw {
    fn new(server: &Running) -> Self {
        let mut stream = TcpStream::connect(server.tcp(Door::Decisions)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut raw = Self(stream);
        raw.frames(&[frame(SETTINGS, 0, 0, &[])]).unwrap();
        raw
    }

    fn frames(&mut self, frames: &[Vec<u8>]) -> std::io::Result<()> {
        self.0.write_all(&frames.concat())
    }

    /// Sends the frames of each round until the server has had enough. Reads meanwhile, so that it is not cut off for
    /// not reading.
    fn flood(mut self, mut round: impl FnMut(u32) -> Vec<Vec<u8>>) {
        let mut reading = self.0.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut sink = [0; 65_536];
            while reading.read(&mut sink).is_ok_and(|read| read > 0) {}
        });
        for number in 0.. {
            if self.frames(&round(number)).is_err() || reader.is_finished() {
                break;
            }
        }
        reader.join().unwrap();
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The id of the n-th stream of a client.
fn stream(number: u32) -> u32 {
    number * 2 + 1
}

fn server() -> Running {
    let mut setup = Setup::of(POLICIES);
    let second = Duration::from_secs(1);
    setup.patience = Patience { head: second, idle: second, body: second, write: second };
    setup.start()
}

/// T21: the flood ends, the server does not, and a good client is served from its beginning to after its end.
fn is_survived(flood: impl FnOnce(Raw) + Send) {
    let server = server();
    std::thread::scope(|scope| {
        let raw = Raw::new(&server);
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
            // A window that overflows is the client's mistake, for which the server resets the stream.
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

/// T21: RUSTSEC-2026-0258 and its kind: frames that carry nothing.
#[test]
fn empty_data_without_end() {
    is_survived(|raw| {
        raw.flood(|number| match number {
            0 => vec![frame(HEADERS, END_HEADERS, 1, POST)],
            _ => vec![frame(DATA, 0, 1, &[]); 100],
        });
    });
}

/// T21: questions that keep the server busy with answers which are no requests.
#[test]
fn pings_and_settings_without_end() {
    is_survived(|raw| raw.flood(|_| vec![frame(PING, 0, 0, &[0; 8]); 100]));
    is_survived(|raw| raw.flood(|_| vec![frame(SETTINGS, 0, 0, &[]); 100]));
}

/// T21: more streams than there may be.
#[test]
fn streams_without_bound() {
    is_survived(|raw| raw.flood(|number| vec![frame(HEADERS, END_HEADERS, stream(number), POST)]));
}
