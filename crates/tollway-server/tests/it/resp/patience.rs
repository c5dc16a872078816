//! Clients that keep the server waiting, and the end of the server itself.

use std::time::Duration;

use super::{server, setup};
use crate::redis_client::RedisClient;

/// T21: half a request is waited for only so long, however steadily the other half trickles.
#[test]
fn a_request_that_does_not_come_to_an_end_is_cut_off() {
    let mut setup = setup("");
    setup.patience.head = Duration::from_millis(300);
    let server = setup.start();
    let mut slow = RedisClient::of(&server);
    let trickle = "*1\r\n$16000\r\n".bytes().chain(std::iter::repeat_n(b'x', 16_000));
    let mut came = 0;
    for byte in trickle {
        if slow.write([byte]).is_err() {
            break;
        }
        came += 1;
        // Good clients are answered all the while.
        assert_eq!(RedisClient::of(&server).ask(&["PING"]), "+PONG\r\n");
    }
    assert_eq!(slow.closed(), "");
    assert!(came < 16_000, "it was waited for");
}

/// Pools open connections ahead: one that has not asked yet may be silent for as long as one that has.
#[test]
fn a_new_client_need_not_ask_at_once() {
    let mut setup = setup("");
    setup.patience.head = Duration::from_millis(50);
    let server = setup.start();
    let mut ahead = RedisClient::of(&server);
    // Whoever begins is not waited for any longer than that; so by now it is later.
    let mut begun = RedisClient::of(&server);
    begun.write("PIN").unwrap();
    assert_eq!(begun.closed(), "");
    assert_eq!(ahead.ask(&["PING"]), "+PONG\r\n");
}

/// A pool's connection may be idle for long, but not for ever.
#[test]
fn an_idle_client_is_closed_in_the_end() {
    let mut setup = setup("");
    setup.patience.idle = Duration::from_millis(50);
    let server = setup.start();
    let mut idle = RedisClient::of(&server);
    assert_eq!(idle.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(idle.closed(), "");
}

#[test]
fn a_server_that_stops_lets_its_clients_go() {
    let mut server = server();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    server.tell_to_stop();
    assert_eq!(client.closed(), "");
    server.ended().unwrap();
}
