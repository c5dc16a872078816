//! Pipelines: answered together, in order, and within bounds.

use std::io::Write;

use tollway_testkit::servers::RedisServer;

use super::{server, setup};
use crate::redis_client::{RedisClient, numbers, request};

/// Alternating requests: takes under one key, and numbered echoes that show the order.
fn mixed(requests: usize) -> Vec<u8> {
    let one = |number: usize| match number % 3 {
        0 => request(&["ECHO", &number.to_string()]),
        _ => request(&["CL.THROTTLE", "k", "99999", "1", "86400"]),
    };
    (0..requests).flat_map(one).collect()
}

fn check_mixed(client: &mut RedisClient, requests: usize) {
    let mut left = 100_000;
    for number in 0..requests {
        let reply = client.reply();
        if number % 3 == 0 {
            let text = number.to_string();
            assert_eq!(reply, format!("${}\r\n{text}\r\n", text.len()));
        } else {
            left -= 1;
            assert_eq!(numbers(&reply)[..4], [0, 100_000, left, -1], "request {number}");
        }
    }
}

#[test]
fn long_pipeline_is_answered_in_order() {
    let server = server();
    let mut client = RedisClient::of(&server);
    client.write(mixed(5_000)).unwrap();
    check_mixed(&mut client, 5_000);
}

#[test]
fn fragmented_requests_are_reassembled() {
    let server = server();
    let mut client = RedisClient::of(&server);
    for piece in mixed(60).chunks(7) {
        client.write(piece).unwrap();
    }
    check_mixed(&mut client, 60);
    client.write(b"\r\n*0\r\n*-1\r\nPING\r\n  echo \"two words\"\n").unwrap();
    assert_eq!((client.reply(), client.reply()), ("+PONG\r\n".into(), "$9\r\ntwo words\r\n".into()));
}

/// A pipeline goes to a remote store in batches, and its replies come in order.
#[test]
fn pipeline_goes_to_the_store_in_batches() {
    let redis = RedisServer::start();
    let server = setup(&format!("[store]\nurl = \"{}\"\n", redis.url())).start();
    let mut client = RedisClient::of(&server);
    client.write(mixed(1_500)).unwrap();
    check_mixed(&mut client, 1_500);
    let statistics = redis.command(&["INFO", "commandstats"]);
    let asked = statistics.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = asked.filter_map(|line| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok());
    let calls: u64 = calls.sum();
    assert!(calls > 0 && calls < 200, "1,000 takes were {calls} calls\n{statistics}");
}

#[test]
fn failed_store_does_not_block_replies() {
    let redis = RedisServer::start();
    let server = setup(&format!("[store]\nurl = \"{}\"\n", redis.url())).start();
    let mut client = RedisClient::of(&server);
    assert_eq!(client.throttle(&["k", "99", "1", "86400"])[..4], [0, 100, 99, -1]);
    drop(redis);
    // Without the store, each process grants a tenth of the 99 that were left, and the remaining amount is unknown.
    let denied = (0..20).filter(|_| client.throttle(&["k", "99", "1", "86400"])[0] == 1).count();
    assert_eq!(denied, 11);
    let answer = client.throttle(&["other", "99", "1", "86400"]);
    assert_eq!(answer, [0, 100, 0, -1, 100 * 86_400]);
}

/// T21: the server stops reading from a client that never reads, so that its buffers stay small, and then cuts it off.
/// Other clients are not affected.
#[test]
fn client_that_never_reads_is_throttled_and_cut_off() {
    let mut setup = setup("");
    setup.timeouts.write = std::time::Duration::from_millis(300);
    let server = setup.start();
    let mut deaf = RedisClient::of(&server);
    let echo = request(&["ECHO", &"x".repeat(16_000)]);
    let mut sent = 0;
    while deaf.write(&echo).is_ok() {
        sent += echo.len();
        assert!(sent < 256 << 20, "the server keeps reading");
    }
    assert_eq!(RedisClient::of(&server).ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn late_reader_gets_every_reply() {
    let server = server();
    let mut client = RedisClient::of(&server);
    let echo = request(&["ECHO", &"x".repeat(10_000)]);
    let mut half = RedisClient::at(server.tcp(tollway_server::ListenerKind::Resp));
    half.end();
    assert_eq!(half.closed(), "");
    std::thread::scope(|scope| {
        let (mut writer, whole) = (client.writer(), echo.repeat(2_000));
        scope.spawn(move || writer.write_all(&whole).unwrap());
        (0..2_000).for_each(|_| assert_eq!(client.reply().len(), 10_000 + 10));
    });
}
