//! Records in a real Postgres that several servers share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use support::{consumer, draft, soon, until, writer};
use tollway_consumers::{ActiveCache, Amounts, PostgresRecords, Records, RecordsFault};
use tollway_core::{Retry, Timestamp};
use tollway_testkit::faults::{Fault, FaultProxy};
use tollway_testkit::servers::PostgresServer;

/// Some time in 2026.
const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

fn server() -> &'static PostgresServer {
    PostgresServer::shared()
}

/// A schema of its own for each test.
fn fresh_schema() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("c{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

fn url(schema: &str) -> String {
    format!("{}?schema={schema}", server().url())
}

fn open_at(schema: &str) -> PostgresRecords {
    PostgresRecords::connect(&url(schema)).unwrap()
}

fn open() -> ((), PostgresRecords) {
    ((), open_at(&fresh_schema()))
}

support::scenarios::holds_for!(open());

/// C3: a change is in force on every server that shares the records.
#[test]
fn a_change_by_one_server_invalidates_the_cache_of_another() {
    let schema = fresh_schema();
    let (one, other) = (open_at(&schema), Arc::new(open_at(&schema)));
    let cache = ActiveCache::new(Arc::<PostgresRecords>::clone(&other), Amounts::NONE);
    let blocked = || soon(cache.active(&consumer("c"), NOW)).unwrap().blocked;
    let mut watch = other.changes();
    until(&mut watch, |generation| generation.followed);
    for flag in [true, false, true] {
        assert_eq!(blocked(), !flag);
        let before = watch.borrow().number;
        soon(one.set_blocked(&consumer("c"), flag)).unwrap();
        until(&mut watch, |generation| generation.number > before);
        assert_eq!(blocked(), flag);
    }
}

#[test]
fn a_manual_change_is_seen_only_in_its_schema() {
    let (schema, elsewhere) = (fresh_schema(), fresh_schema());
    let (records, apart) = (open_at(&schema), open_at(&elsewhere));
    let made = soon(records.create(draft("c", 100))).unwrap();
    soon(apart.create(draft("c", 100))).unwrap();
    let (mut watch, still) = (records.changes(), apart.changes());
    let (before, of_apart) = (watch.borrow().number, still.borrow().number);
    let now = format!("UPDATE {schema}.consumer_records SET per_minute = 7 WHERE id = '{}'", made.id);
    server().query(&now);
    until(&mut watch, |generation| generation.number > before);
    let found = soon(records.consumer(&consumer("c"))).unwrap();
    assert_eq!(found.records[0].draft.amounts.all()[1], 7);
    // Notifications arrive in order: after its own change the other schema has received all earlier ones.
    soon(apart.set_blocked(&consumer("c"), true)).unwrap();
    soon(apart.consumers(None, 1)).unwrap();
    assert!(still.borrow().number - of_apart <= 2, "its own change, and the notification of it");
}

#[test]
fn a_lost_connection_is_detected_at_once_and_reconnected() {
    let schema = fresh_schema();
    let proxy = FaultProxy::to(server().addr());
    let through = format!("postgres://postgres@{}/postgres?schema={schema}", proxy.addr());
    let (direct, records) = (open_at(&schema), Arc::new(PostgresRecords::connect(&through).unwrap()));
    let cache = ActiveCache::new(Arc::<PostgresRecords>::clone(&records), Amounts::NONE);
    let blocked = || soon(cache.active(&consumer("c"), NOW)).unwrap().blocked;
    let mut watch = records.changes();
    until(&mut watch, |generation| generation.followed);
    assert!(!blocked());
    let before = watch.borrow().number;
    proxy.set(Fault::Reset);
    until(&mut watch, |generation| !generation.followed && generation.number > before);
    soon(direct.set_blocked(&consumer("c"), true)).unwrap();
    assert!(!blocked(), "the last known state");
    let error = soon(records.consumer(&consumer("c"))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::Network, Retry::Safe), "{error}");
    let before = watch.borrow().number;
    proxy.clear();
    until(&mut watch, |generation| generation.followed && generation.number > before);
    assert!(blocked(), "the change made during the outage");
}

/// A dead network reports no error, so notifications would be missed without a liveness check.
#[test]
fn a_silent_connection_is_detected() {
    let proxy = FaultProxy::to(server().addr());
    let url = format!("postgres://postgres@{}/postgres?schema={}", proxy.addr(), fresh_schema());
    let records = PostgresRecords::connect(&url).unwrap();
    let mut watch = records.changes();
    until(&mut watch, |generation| generation.followed);
    proxy.set(Fault::Blackhole);
    until(&mut watch, |generation| !generation.followed);
    proxy.clear();
    until(&mut watch, |generation| generation.followed);
    soon(records.create(draft("c", 1))).unwrap();
}

/// The server applied the change but the response is lost: the error says that the outcome is unclear.
#[test]
fn a_lost_response_to_a_change_is_unclear() {
    let schema = fresh_schema();
    let proxy = FaultProxy::to(server().addr());
    let url = format!("postgres://postgres@{}/postgres?schema={schema}", proxy.addr());
    let records = PostgresRecords::connect(&url).unwrap();
    until(&mut records.changes(), |generation| generation.followed);
    proxy.set(Fault::LoseReplies { times: Some(1) });
    let error = soon(records.create(draft("c", 1))).unwrap_err();
    assert_eq!(error.fault, RecordsFault::Network, "{error}");
    // The liveness query may have lost its response instead, before the change was sent.
    let kept = soon(open_at(&schema).consumer(&consumer("c"))).unwrap().is_known();
    assert!(
        error.retry == Retry::Unclear || (error.retry == Retry::Safe && !kept),
        "{error:?}, kept: {kept}"
    );
}

#[test]
fn connection_refused_is_retryable_and_the_connection_recovers() {
    let server = PostgresServer::start();
    server.kill();
    let records = PostgresRecords::connect(&server.url()).unwrap();
    let error = soon(records.create(draft("c", 1))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::Network, Retry::Safe), "{error}");
    server.restart();
    until(&mut records.changes(), |generation| generation.followed);
    soon(records.create(draft("c", 1))).unwrap();
    server.restart();
    let mut watch = records.changes();
    until(&mut watch, |generation| generation.followed);
    assert!(soon(open_again(&server).consumer(&consumer("c"))).unwrap().is_known());
}

fn open_again(server: &PostgresServer) -> PostgresRecords {
    let records = PostgresRecords::connect(&server.url()).unwrap();
    until(&mut records.changes(), |generation| generation.followed);
    records
}

#[test]
fn concurrent_opens_create_the_tables_once() {
    for _ in 0..3 {
        let schema = fresh_schema();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for number in 0..8 {
                let (schema, barrier) = (&schema, &barrier);
                scope.spawn(move || {
                    let records = open_at(schema);
                    barrier.wait();
                    soon(records.create(draft(&format!("c{number}"), 1))).unwrap();
                });
            }
        });
        assert_eq!(soon(open_at(&schema).consumers(None, 100)).unwrap().len(), 8);
        assert_eq!(server().query(&format!("SELECT count(*) FROM {schema}.consumer_schema_version")), "1");
    }
}

/// A proxy to the server that stops a connection for ever before it passes on this word, and says so.
fn network_that_stops_before(word: &'static str) -> (SocketAddr, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (stops, stopped) = mpsc::channel();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut server = TcpStream::connect(server().addr()).unwrap();
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let stops = stops.clone();
            thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(count @ 1..) = client.read(&mut bytes) {
                    if bytes[..count].windows(word.len()).any(|part| part == word.as_bytes()) {
                        let _ = stops.send(());
                        loop {
                            thread::park();
                        }
                    }
                    server.write_all(&bytes[..count]).unwrap();
                }
            });
        }
    });
    (addr, stopped)
}

/// It holds a lock that every other client needs, and the server frees it.
#[test]
fn a_client_that_stops_while_it_makes_the_tables_blocks_no_other() {
    let schema = fresh_schema();
    let (addr, stopped) = network_that_stops_before("CREATE TABLE IF NOT EXISTS");
    let frozen = PostgresRecords::connect(&format!("postgres://postgres@{addr}/postgres?schema={schema}"));
    stopped.recv().unwrap();
    soon(open_at(&schema).create(draft("c", 1))).unwrap();
    drop(frozen);
}

#[test]
fn tables_of_a_newer_version_are_not_touched() {
    let schema = fresh_schema();
    soon(open_at(&schema).create(draft("c", 1))).unwrap();
    server().query(&format!("UPDATE {schema}.consumer_schema_version SET version = 99"));
    let error = soon(open_at(&schema).consumer(&consumer("c"))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::Storage, Retry::Useless));
    assert!(error.message.contains("version 99") && error.message.contains("newer Tollway"), "{error}");
}

/// Not a test by itself: the body of the child process.
#[test]
fn child_writes_until_killed() {
    writer::write_until_killed();
}

#[test]
fn a_killed_process_loses_no_acknowledged_change() {
    let schema = fresh_schema();
    let records = open_at(&schema);
    let mut watch = records.changes();
    until(&mut watch, |generation| generation.followed);
    let before = watch.borrow().number;
    let child = writer::spawn("child_writes_until_killed", &url(&schema));
    until(&mut watch, |generation| generation.number > before);
    let names = writer::kill_after(child, 20);
    for name in &names {
        assert_eq!(soon(records.consumer(&consumer(name))).unwrap().records.len(), 1, "{name}");
    }
}
