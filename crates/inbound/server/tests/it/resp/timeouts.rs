//! Slow and idle clients, and a stop of the server.

use std::time::Duration;

use super::{server, setup};
use crate::redis_client::RedisClient;

/// T21: an incomplete request is cut off by the head timeout, although bytes keep arriving.
#[test]
fn incomplete_request_is_cut_off() {
    let mut setup = setup("");
    setup.timeouts.head = Duration::from_millis(300);
    let server = setup.start();
    let mut slow = RedisClient::of(&server);
    let trickle = "*1\r\n$16000\r\n".bytes().chain(std::iter::repeat_n(b'x', 16_000));
    let mut came = 0;
    for byte in trickle {
        if slow.write([byte]).is_err() {
            break;
        }
        came += 1;
        // Other clients are served meanwhile.
        assert_eq!(RedisClient::of(&server).ask(&["PING"]), "+PONG\r\n");
    }
    assert_eq!(slow.closed(), "");
    assert!(came < 16_000, "it was not cut off");
}

/// Pools open connections ahead: a new connection has the idle timeout, not the head timeout.
#[test]
fn new_connection_has_the_idle_timeout() {
    let mut setup = setup("");
    setup.timeouts.head = Duration::from_millis(50);
    let server = setup.start();
    let mut ahead = RedisClient::of(&server);
    // When this one is cut off, the head timeout has passed.
    let mut begun = RedisClient::of(&server);
    begun.write("PIN").unwrap();
    assert_eq!(begun.closed(), "");
    assert_eq!(ahead.ask(&["PING"]), "+PONG\r\n");
}

/// An idle connection of a pool is closed after the idle timeout.
#[test]
fn idle_client_is_closed() {
    let mut setup = setup("");
    setup.timeouts.idle = Duration::from_millis(50);
    let server = setup.start();
    let mut idle = RedisClient::of(&server);
    assert_eq!(idle.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(idle.closed(), "");
}

#[test]
fn stop_closes_redis_connections() {
    let mut server = server();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    server.tell_to_stop();
    assert_eq!(client.closed(), "");
    server.ended().unwrap();
}
