//! The proxy does to a connection what its faults say, to an echo and to Redis.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollway_testkit::faults::{Fault, FaultProxy, Way};
use tollway_testkit::servers::RedisServer;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3_600);

#[test]
fn bytes_pass_unchanged_without_a_fault() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut client = connect(&proxy);
    let much: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let mut writer = client.try_clone().unwrap();
    let sent = much.clone();
    let sender = thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut back = vec![0; much.len()];
    client.read_exact(&mut back).unwrap();
    sender.join().unwrap();
    assert!(back == much);
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.open), (1, 1));
    assert_eq!((counts.to_server, counts.to_client), (3_000_000, 3_000_000));
    drop(client);
    eventually(|| proxy.counts().open == 0);
}

#[test]
fn half_close_keeps_the_other_direction_open() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut client = connect(&proxy);
    client.write_all(b"last words").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = String::new();
    client.read_to_string(&mut back).unwrap();
    assert_eq!(back, "last words");
}

#[test]
fn latency_delays_bytes_until_cleared() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut client = connect(&proxy);
    say(&mut client, b"swift");
    proxy.set(Fault::Latency { fixed: NEVER, jitter: Duration::ZERO });
    client.write_all(b"late").unwrap();
    expect_silence(&mut client);
    assert_eq!(echo.received(), 5);
    proxy.clear();
    hear(&mut client, b"late");
}

#[test]
fn latency_counts_each_way() {
    let echo = Echo::start();
    let proxy = FaultProxy::with_seed(echo.addr, 7);
    let mut client = connect(&proxy);
    let each_way = Duration::from_millis(30);
    proxy.set(Fault::Latency { fixed: each_way, jitter: Duration::from_millis(5) });
    #[allow(clippy::disallowed_methods, reason = "what is late is late in real time")]
    let start = std::time::Instant::now();
    say(&mut client, b"there and back");
    assert!(start.elapsed() >= each_way * 2);
}

#[test]
fn black_hole_accepts_connections_and_drops_bytes() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut before = connect(&proxy);
    say(&mut before, b"hello");
    proxy.set(Fault::Blackhole);
    let mut during = connect(&proxy);
    for client in [&mut before, &mut during] {
        client.write_all(b"delayed!").unwrap();
        expect_silence(client);
    }
    assert_eq!(echo.received(), 5);
    proxy.clear();
    hear(&mut before, b"delayed!");
    hear(&mut during, b"delayed!");
}

#[test]
fn refuse_affects_only_new_connections() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut before = connect(&proxy);
    proxy.set(Fault::Refuse);
    let refused = TcpStream::connect(proxy.addr()).expect_err("the port is closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    say(&mut before, b"still here");
    proxy.clear();
    say(&mut connect(&proxy), b"back again");
    say(&mut before, b"still here");
}

#[test]
fn reset_affects_open_and_new_connections() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut before = connect(&proxy);
    say(&mut before, b"hello");
    proxy.set(Fault::Reset);
    expect_reset(&mut before);
    expect_reset(&mut connect(&proxy));
    assert_eq!((proxy.counts().resets, proxy.counts().open), (2, 0));
    proxy.clear();
    say(&mut connect(&proxy), b"well again");
}

#[test]
fn half_open_drops_only_replies() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut client = connect(&proxy);
    proxy.set(Fault::HalfOpen);
    client.write_all(b"request").unwrap();
    eventually(|| echo.received() == 7);
    expect_silence(&mut client);
    proxy.clear();
    hear(&mut client, b"request");
}

#[test]
fn slow_limits_the_byte_rate() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut client = connect(&proxy);
    // At this rate a second byte would not come within the remaining time.
    proxy.set(Fault::Slow { bytes_per_second: 1 });
    client.write_all(&[7; 5_000]).unwrap();
    hear(&mut client, &[7; 1]);
    assert!(echo.received() < 100);
    proxy.clear();
    hear(&mut client, &[7; 4_999]);

    proxy.set(Fault::Slow { bytes_per_second: 100_000 });
    say(&mut client, &[8; 20_000]);
}

#[test]
fn cut_closes_after_the_given_bytes() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut before = connect(&proxy);
    say(&mut before, b"these do not count");
    proxy.set(Fault::CutAfter { way: Way::ToClient, bytes: 4 });
    for mut client in [before, connect(&proxy)] {
        client.write_all(b"tollway").unwrap();
        hear(&mut client, b"toll");
        assert_eq!(client.read(&mut [0; 9]).expect("it is closed in order"), 0);
    }
    let received = echo.received();
    proxy.set(Fault::CutAfter { way: Way::ToServer, bytes: 3 });
    let mut client = connect(&proxy);
    client.write_all(b"tollway").unwrap();
    expect_end(&mut client);
    eventually(|| echo.received() == received + 3);
    assert_eq!(proxy.counts().cuts, 3);
}

#[test]
fn lost_reply_follows_an_applied_request() {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr);
    let mut clients = [connect(&proxy), connect(&proxy), connect(&proxy)];
    proxy.set(Fault::LoseReplies { times: Some(2) });
    for (index, client) in clients[..2].iter_mut().enumerate() {
        client.write_all(b"request").unwrap();
        expect_reset(client);
        assert_eq!(echo.received(), 7 * (index as u64 + 1));
    }
    say(&mut clients[2], b"answered");
    assert_eq!(proxy.counts().replies_lost, 2);
    assert_eq!(proxy.counts().to_client, 8);

    proxy.set(Fault::LoseReplies { times: None });
    for _ in 0..3 {
        let mut client = connect(&proxy);
        client.write_all(b"request").unwrap();
        expect_reset(&mut client);
    }
    proxy.clear();
    say(&mut clients[2], b"answered");
    assert_eq!(proxy.counts().replies_lost, 5);
}

#[test]
fn unreachable_server_resets_the_connection() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = FaultProxy::to(closed);
    expect_reset(&mut connect(&proxy));
    assert_eq!(proxy.counts().not_connected, 1);
}

#[test]
fn dropped_proxy_leaves_no_threads() {
    let echo = Echo::start();
    for fault in [None, Some(Fault::Blackhole), Some(Fault::Latency { fixed: NEVER, jitter: NEVER })] {
        let proxy = FaultProxy::to(echo.addr);
        let addr = proxy.addr();
        let mut client = connect(&proxy);
        say(&mut client, b"hello");
        fault.into_iter().for_each(|fault| proxy.set(fault));
        assert_eq!(threads_named(&format!("fault-{}", addr.port())), 1);
        drop(proxy);
        assert_eq!(threads_named(&format!("fault-{}", addr.port())), 0);
        expect_end(&mut client);
        TcpStream::connect(addr).expect_err("the port is closed");
    }
}

#[test]
fn command_with_a_lost_reply_is_applied() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.addr());
    let mut client = connect(&proxy);
    ask(&mut client, "INCR n", ":1\r\n");
    proxy.set(Fault::LoseReplies { times: Some(1) });
    client.write_all(b"INCR n\r\n").unwrap();
    expect_reset(&mut client);
    assert_eq!(redis.command(&["GET", "n"]), "2");
    ask(&mut connect(&proxy), "INCR n", ":3\r\n");
}

#[test]
fn redis_behind_every_fault() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.addr());
    let mut client = connect(&proxy);
    let late = Fault::Latency { fixed: Duration::from_millis(3), jitter: Duration::from_millis(3) };
    for fault in [late, Fault::Slow { bytes_per_second: 5_000 }, Fault::Refuse] {
        proxy.set(fault);
        ask(&mut client, "PING", "+PONG\r\n");
    }
    let held = [(Fault::Blackhole, "0"), (Fault::HalfOpen, "1")];
    for (fault, applied) in held {
        redis.command(&["SET", "n", "0"]);
        proxy.set(fault);
        client.write_all(b"INCR n\r\n").unwrap();
        expect_silence(&mut client);
        assert_eq!(redis.command(&["GET", "n"]), applied, "{fault:?}");
        proxy.clear();
        hear(&mut client, b":1\r\n");
    }
    proxy.set(Fault::CutAfter { way: Way::ToClient, bytes: 3 });
    client.write_all(b"PING\r\n").unwrap();
    hear(&mut client, b"+PO");
    expect_end(&mut client);
    proxy.clear();
    let mut client = connect(&proxy);
    ask(&mut client, "PING", "+PONG\r\n");
    proxy.set(Fault::Reset);
    expect_reset(&mut client);
}

/// Echoes its input.
struct Echo {
    addr: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, counter) = (client.unwrap(), counter.clone());
                thread::spawn(move || echo(client, &counter));
            }
        });
        Self { addr, received }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::SeqCst)
    }
}

fn echo(mut client: TcpStream, received: &AtomicU64) {
    let mut buffer = [0; 4_096];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        received.fetch_add(length as u64, Ordering::SeqCst);
        if client.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_nodelay(true).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

/// Sends bytes to the echo server and expects them back.
fn say(client: &mut TcpStream, words: &[u8]) {
    client.write_all(words).unwrap();
    hear(client, words);
}

/// Sends a command to Redis.
fn ask(client: &mut TcpStream, command: &str, answer: &str) {
    client.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    hear(client, answer.as_bytes());
}

fn hear(client: &mut TcpStream, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(heard, words);
}

fn expect_silence(client: &mut TcpStream) {
    client.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    let silence = client.read(&mut [0; 9]).expect_err("nothing comes, not even an end");
    assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
}

fn expect_reset(client: &mut TcpStream) {
    let reset = client.read(&mut [0; 9]).expect_err("it is reset");
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
}

/// A clean close or a reset.
fn expect_end(client: &mut TcpStream) {
    match client.read(&mut [0; 9]) {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

fn eventually(mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not happen");
}

fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("this test needs /proc").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}
