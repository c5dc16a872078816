//! The Redis protocol over TLS.

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use tollway_server::ListenerKind;

use super::setup;
use super::tools::redis_cli;
use crate::certificate::{certificate, over_tls};
use crate::redis_client::RedisClient;

const TOKEN: &str = "0123456789abcdef";

/// B10: redis-cli works over TLS with a token; a plaintext connection is closed and affects no others.
#[test]
fn redis_cli_speaks_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let mut setup = setup(&format!("[server.tokens]\nresp = \"file:{}\"\n", token.display()));
    setup.config.tls = Some(files.clone());
    let server = setup.start();

    let mut plain = RedisClient::of(&server);
    plain.write("PING\r\n").unwrap();
    assert!(!plain.closed().contains("PONG"));

    let root = files.certificate.to_str().unwrap();
    let over_tls = ["-h", "localhost", "--tls", "--cacert", root];
    let ask = |words: &[&str]| redis_cli(&server, &[&over_tls, words].concat());
    assert!(ask(&["PING"]).starts_with("NOAUTH"));
    let with_token = ["--no-auth-warning", "-a", TOKEN];
    assert_eq!(ask(&[&with_token[..], &["PING"]].concat()), "PONG");
    let throttle = [&with_token[..], &["CL.THROTTLE", "ann", "4", "5", "60"]].concat();
    assert_eq!(ask(&throttle), "0\n5\n4\n-1\n12");
    assert_eq!(ask(&throttle).lines().nth(2), Some("3"));
}

/// Replies that do not fit into the socket's buffer are sent completely once the client reads, even without another request.
/// The size of that buffer is unknown, so there is a client for each possible size.
#[test]
fn clients_that_read_late_get_everything_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let mut setup = setup("");
    setup.config.tls = Some(files.clone());
    let server = setup.start();
    let ask = |requests| {
        let mut client = over_tls(server.tcp(ListenerKind::Resp), &files);
        client.write_all("INFO\r\n".repeat(requests).as_bytes()).unwrap();
        (requests, client)
    };
    let clients: Vec<_> = CLIENTS.map(|number| ask(number * MORE_REQUESTS)).collect();
    std::thread::sleep(Duration::from_secs(1));
    for (requests, mut client) in clients {
        let mut replies = BufReader::new(&mut client);
        (0..requests).for_each(|number| read_text(&mut replies, number));
    }
}

fn read_text(replies: &mut impl BufRead, number: usize) {
    let mut length = String::new();
    replies.read_line(&mut length).unwrap_or_else(|error| panic!("reply {number}: {error}"));
    let length: usize = length[1..].trim_end().parse().unwrap();
    let mut text = vec![0; length + 2];
    replies.read_exact(&mut text).unwrap();
    assert!(text.starts_with(b"# Server\r\n"));
}

/// Each asks for 57 KB more than the one before: less than the 64 KB that are encrypted ahead.
const MORE_REQUESTS: usize = 350;

/// From less than a socket buffers, which is 4 MB, to more.
const CLIENTS: RangeInclusive<usize> = 20..=110;
