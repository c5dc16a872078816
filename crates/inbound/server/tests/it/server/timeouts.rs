//! Slow clients: each is cut off, while a good client is served.

use std::time::Duration;

use tollway_server::ClientTimeouts;

use crate::client::Client;
use crate::running::{Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"1000000 requests / hour\"]";
const SHORT: Duration = Duration::from_millis(500);
/// So long that a test which waits for it fails.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// A server without timeouts except the one under test.
fn server(timeouts: impl FnOnce(&mut ClientTimeouts)) -> Running {
    let mut setup = Setup::of(POLICIES);
    setup.timeouts = ClientTimeouts {
        head: FOR_EVER,
        idle: FOR_EVER,
        body: FOR_EVER,
        write: FOR_EVER,
        ..ClientTimeouts::default()
    };
    timeouts(&mut setup.timeouts);
    setup.start()
}

/// Serves a good client until the bad one is cut off.
fn beside_a_good_client(server: &Running, bad: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let bad = scope.spawn(bad);
        let mut good = server.client();
        while !bad.is_finished() {
            assert_eq!(good.take(r#"{"policy":"api"}"#).status, 200);
        }
        bad.join().unwrap();
    });
}

/// Sends one byte at a time until it is cut off.
fn trickle(client: &mut Client, byte: &str) {
    while client.write(byte).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// T21, slowloris: a head that never ends, although bytes keep arriving.
#[test]
fn endless_head_is_cut_off() {
    let server = server(|timeouts| timeouts.head = SHORT);
    beside_a_good_client(&server, || {
        let mut slow = server.client();
        slow.write("POST /v1/take HTTP/1.1\r\nhost: test\r\n").unwrap();
        trickle(&mut slow, "a: b\r\n");
    });
}

/// T21: the same for the second request of a connection.
#[test]
fn endless_second_head_is_cut_off() {
    let server = server(|timeouts| timeouts.head = SHORT);
    beside_a_good_client(&server, || {
        let mut slow = server.client();
        assert_eq!(slow.take(r#"{"policy":"api"}"#).status, 200);
        trickle(&mut slow, "P");
    });
}

/// T21: a connection that sends nothing, or only the HTTP/2 preface.
#[test]
fn silent_connection_is_cut_off() {
    let server = server(|timeouts| timeouts.head = SHORT);
    beside_a_good_client(&server, || {
        server.client().closed();
        let mut half_a_preface = server.client();
        half_a_preface.write("PRI * HTTP/2.0\r\n").unwrap();
        half_a_preface.closed();
        let mut only_a_preface = server.client();
        only_a_preface.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        only_a_preface.closed();
    });
}

/// T21: a connection that is idle after a request.
#[test]
fn an_idle_connection_is_closed() {
    let server = server(|timeouts| timeouts.idle = SHORT);
    beside_a_good_client(&server, || {
        let mut idle = server.client();
        assert_eq!(idle.take(r#"{"policy":"api"}"#).status, 200);
        idle.closed();
    });
}

/// T21: a body that trickles gets a 408, with a length and in chunks.
#[test]
fn slow_body_gets_408_and_is_closed() {
    let server = server(|timeouts| timeouts.body = SHORT);
    for (length, byte) in [("content-length: 1000", " "), ("transfer-encoding: chunked", "1\r\n \r\n")] {
        beside_a_good_client(&server, || {
            let begin = |mut client: Client| {
                let head = format!("POST /v1/take HTTP/1.1\r\nhost: test\r\n{length}\r\n\r\n");
                client.write(head).unwrap();
                client.write(byte).unwrap();
                client
            };
            trickle(&mut begin(server.client()), byte);
            // A client that keeps writing to a closed connection may lose the response, so this one stops and reads.
            let told = begin(server.client()).closed();
            assert!(told.starts_with("HTTP/1.1 408"), "{told}");
        });
    }
}

/// T21: a client that sends requests and never reads.
#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = server(|timeouts| timeouts.write = SHORT);
    beside_a_good_client(&server, || {
        let mut deaf = server.client();
        let question = "GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n".repeat(100);
        while deaf.write(&question).is_ok() {}
    });
}
