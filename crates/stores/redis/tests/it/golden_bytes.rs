//! Keys, values and lifetimes in Redis stay as they are: everything after a fixed sequence of operations.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files. Masked: the writer, drawn at random for each process, and times of the
//! server's clock. Lifetimes are those that the scripts ask for, as `MONITOR` shows them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use tollway_core::{
    Action, Booking, CallId, Charge, Operation, Outcome, PermitId, Policy, Store, Subject, Terms,
};
use tollway_redis::RedisStore;
use tollway_testkit::golden::{START, compare, hex, late_steps, play, set_limits, steps};
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, wait_for};

fn golden(name: &str, found: &str) {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name), found);
}

/// A connection that reads values as bytes.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(server: &RedisServer) -> Self {
        Self(BufReader::new(TcpStream::connect(server.addr()).unwrap()))
    }

    /// All texts of the answer, one after the other.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(*word);
            bytes.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes).unwrap();
        let mut texts = Vec::new();
        self.read(&mut texts);
        texts
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the server closed the connection");
        line.trim_end().to_owned()
    }

    fn read(&mut self, texts: &mut Vec<Vec<u8>>) {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        match kind {
            "+" | ":" => texts.push(rest.as_bytes().to_vec()),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                texts.push(text);
            }
            "*" => (0..rest.parse::<usize>().unwrap()).for_each(|_| self.read(texts)),
            _ => panic!("{line}"),
        }
    }
}

/// Every key with its kind and its value.
fn everything(server: &RedisServer) -> BTreeMap<Vec<u8>, (String, Vec<Vec<u8>>)> {
    let mut connection = Connection::to(server);
    let keys = connection.ask(&[b"KEYS", b"*"]);
    let mut all = BTreeMap::new();
    for key in keys {
        let kind = String::from_utf8(connection.ask(&[b"TYPE", &key]).remove(0)).unwrap();
        let value = match kind.as_str() {
            "string" => connection.ask(&[b"GET", &key]),
            "hash" => in_pairs(&connection.ask(&[b"HGETALL", &key])),
            "zset" => connection.ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]),
            other => panic!("{key:?} is a {other}"),
        };
        all.insert(key, (kind, value));
    }
    all
}

/// A hash has no order: sorted by field.
fn in_pairs(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut pairs: Vec<&[Vec<u8>]> = texts.chunks(2).collect();
    pairs.sort_unstable();
    pairs.concat()
}

/// A key as `MONITOR` shows it: bytes that are no ASCII are escaped.
fn as_monitor_shows(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// A key without its writer, which is 32 hexadecimal digits at its end.
fn without_writer(key: &str) -> String {
    match key.rsplit_once(':') {
        Some((rest, writer)) if writer.len() == 32 && writer.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{rest}:WRITER")
        }
        _ => key.to_owned(),
    }
}

/// Which lifetimes the scripts ask for while `act` runs: the last one of each key.
fn lifetimes(server: &RedisServer, act: impl FnOnce()) -> BTreeMap<String, String> {
    let mut monitor = Connection::to(server);
    assert_eq!(monitor.ask(&[b"MONITOR"]), [b"OK"]);
    act();
    server.command(&["ECHO", "the sequence is over"]);
    let mut lifetimes = BTreeMap::new();
    loop {
        let line = monitor.line();
        if line.contains("the sequence is over") {
            return lifetimes;
        }
        let Some((_, command)) = line.split_once(" lua] ") else { continue };
        let words: Vec<&str> = command.trim_matches('"').split("\" \"").collect();
        let [name, key, .., last] = words[..] else { continue };
        let asked = match (name.to_uppercase().as_str(), words.get(words.len().wrapping_sub(2))) {
            ("SET", Some(option)) if words.len() == 5 => (option.to_uppercase(), last),
            ("PEXPIRE", _) => ("PX".to_owned(), last),
            ("PEXPIREAT", _) => ("PXAT".to_owned(), last),
            _ => continue,
        };
        // What ends at a time of the server's clock has no fixed number.
        let (option, value) = if asked.0 == "PXAT" { (asked.0, "TIME") } else { asked };
        lifetimes.insert(without_writer(key), format!("{option} {value}"));
    }
}

#[test]
fn accounts_keep_their_bytes() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::at(START));
    let store = |()| {
        let url = format!("{}?deadline=20s", server.url());
        RedisStore::with_test_clock(&url, clock.clone()).unwrap()
    };
    let writing = store(());
    let mut outcomes = String::new();
    let lifetimes = lifetimes(&server, || outcomes = play(&writing, &clock, &steps()));
    let mut text = String::new();
    for (key, (kind, value)) in everything(&server) {
        let key = without_writer(&as_monitor_shows(&key));
        let lives = lifetimes.get(&key).map_or("no end", String::as_str);
        writeln!(text, "{key} {kind} {lives}\n  {}", hex(&value[0])).unwrap();
    }
    golden("accounts.txt", &text);
    golden("outcomes.txt", &outcomes);
    golden("late_outcomes.txt", &play(&store(()), &clock, &late_steps()));
}

#[test]
fn settings_keep_their_bytes() {
    let server = RedisServer::start();
    let store = RedisStore::open(&format!("{}?deadline=20s", server.url())).unwrap();
    set_limits(&store);
    let mut text = String::new();
    for (key, (kind, value)) in everything(&server) {
        writeln!(text, "{} {kind}", String::from_utf8(key).unwrap()).unwrap();
        for pair in value.chunks(2) {
            let [field, value] = [0, 1].map(|index| String::from_utf8(pair[index].clone()).unwrap());
            let (amounts, time) = value.rsplit_once(':').unwrap();
            assert!(time.len() == 16 && time.bytes().all(|byte| byte.is_ascii_digit()), "{value}");
            writeln!(text, "  {field} {amounts}:TIME").unwrap();
        }
    }
    golden("settings.txt", &text);
}

/// One operation of the layout `consumers`.
fn ask(store: &RedisStore, subject: &str, cost: u64, action: Action) -> Outcome {
    let limits =
        ["100 / minute from first call", "1000 / hour from first call", "9000 / month from first call"];
    let policy = Policy::new("consumers", limits).unwrap();
    let subject = Subject::new(subject).unwrap();
    let cost = policy.cost([("requests", cost)]).unwrap();
    let charge = Charge::new(Arc::new(policy), subject).with_cost(cost);
    wait_for(store.apply(&[Operation::one(charge, action)])).unwrap().remove(0)
}

fn take(store: &RedisStore, subject: &str, cost: u64, permit: u128, id: Option<&str>) -> Booking {
    let call = id.map(|id| CallId::new(id).unwrap());
    let terms = Terms { call, ..Terms::now(PermitId(permit)) };
    match ask(store, subject, cost, Action::Take(terms)) {
        Outcome::Decided(decision) => *decision.booking().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Counters lie under the keys of a system that already runs. Windows end by the server's clock, so times within values
/// are masked: of an id's value only the part before them is compared.
#[test]
fn counters_of_consumers_keep_their_bytes() {
    let server = RedisServer::start();
    let store = RedisStore::open(&format!("{}/0?layout=consumers&deadline=20s", server.url())).unwrap();
    let lifetimes = lifetimes(&server, || {
        take(&store, "consumer_123", 1, 1, None);
        take(&store, "consumer_123", 2, 2, Some("call-1"));
        let returned = take(&store, "consumer_123", 4, 3, None);
        ask(&store, "consumer_123", 4, Action::Return { booking: returned, remember: true });
        take(&store, "a}:{ß", 5, 4, None);
    });
    let mut text = String::new();
    for (key, (kind, value)) in everything(&server) {
        let key = without_writer(&as_monitor_shows(&key));
        let lives = lifetimes.get(&key).map_or("no end", String::as_str);
        // How long refunds are remembered depends on when their windows end.
        let lives = if kind == "zset" { "PX TIME" } else { lives };
        let value: Vec<String> = match kind.as_str() {
            "string" if key.ends_with(":WRITER") => vec![format!("{} bytes", value[0].len())],
            "hash" => vec![hex(&value[0]), hex(&value[1][..1 + 9 + 17])],
            "zset" => vec![hex(&value[0]), "TIME".to_owned()],
            _ => value.iter().map(|value| String::from_utf8(value.clone()).unwrap()).collect(),
        };
        writeln!(text, "{key} {kind} {lives}\n  {}", value.join(" ")).unwrap();
    }
    golden("consumers.txt", &text);
}
