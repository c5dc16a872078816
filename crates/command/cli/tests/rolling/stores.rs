//! Both versions take from one limit in every store, until it is used up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tollway_testkit::Random;
use tollway_testkit::servers::{DynamoServer, PostgresServer, RedisServer};

use crate::serving::{Answer, Serving, post};
use crate::version::{BOTH, Home, Version, is_refusal, wait_until};

/// The limit. Half of it is taken by commands, the rest over HTTP.
const LIMIT: u64 = 240;
const BY_COMMANDS: u64 = LIMIT / 2;

/// One of so many commands is killed, at any of its first moments.
const KILLED: u64 = 5;
const KILLED_WITHIN_MS: u64 = 80;

/// The exit code of a take that the store did not decide.
const STORE_FAILED: i32 = 69;

/// After so many answers over HTTP, the earlier server is killed, and today's takes its place.
const REPLACED_AFTER: u64 = 40;

/// J1, B1: a file.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn both_versions_count_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    take_all(&format!("file:{}", folder.path().join("state").display()));
}

/// J1, B1: Redis.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn both_versions_count_in_one_redis() {
    take_all(&RedisServer::start().url());
}

/// J1, B1: Postgres.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn both_versions_count_in_one_postgres() {
    take_all(&PostgresServer::start().url());
}

/// J1, B1: DynamoDB.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn both_versions_count_in_one_dynamodb() {
    take_all(&DynamoServer::start().url("limits"));
}

#[derive(Default)]
struct Counts {
    granted: AtomicU64,
    /// Takes whose answer was never seen.
    unknown: AtomicU64,
    denied: AtomicU64,
    /// What a version said that did not start.
    refusals: Mutex<Vec<String>>,
}

impl Counts {
    fn asked(&self) -> u64 {
        self.granted.load(Ordering::SeqCst) + self.unknown.load(Ordering::SeqCst)
    }

    fn refused(&self, said: String) {
        assert!(
            is_refusal(&said),
            "a version does not start, and does not say that the other is the reason: {said}"
        );
        self.refusals.lock().unwrap().push(said);
    }
}

fn take_all(store: &str) {
    let home = Home::new(&format!(
        "[store]\nurl = \"{store}\"\n[policies.p]\nlimits = [\"{LIMIT} requests / 300 days from first call\"]\n\
         when_store_fails = \"closed\"\nmax_wait = \"0s\"\n"
    ));
    let counts = Counts::default();
    std::thread::scope(|scope| {
        for (worker, version) in BOTH.into_iter().enumerate() {
            let (home, counts) = (&home, &counts);
            scope.spawn(move || take_by_commands(home, version, worker as u64, counts));
        }
    });
    take_over_http(&home, &counts);
    let [granted, unknown, denied] =
        [&counts.granted, &counts.unknown, &counts.denied].map(|count| count.load(Ordering::SeqCst));
    let refusals = counts.refusals.into_inner().unwrap();
    println!(
        "{store}: {granted} granted, {unknown} without an answer, {denied} denied; refusals: {refusals:?}"
    );
    assert!(granted <= LIMIT, "{granted} of {LIMIT} granted");
    assert!(
        granted + unknown >= LIMIT,
        "only {granted} granted and {unknown} unknown, and the limit is used up"
    );
    for version in BOTH {
        if version == Version::New || refusals.is_empty() {
            let usage = home.json(version, &["usage", "p", "--json"]);
            assert_eq!(usage["policies"][0]["limits"][0]["used"], json!(LIMIT), "{version:?}: {usage}");
        }
    }
}

/// Takes one after the other, each by a process of its own. Some are killed.
fn take_by_commands(home: &Home, version: Version, worker: u64, counts: &Counts) {
    let mut random = Random::new(worker);
    while counts.asked() < BY_COMMANDS {
        let mut taking = home.start(version, &["take", "p", "--json"], &format!("take-{worker}"));
        if random.below(KILLED) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(KILLED_WITHIN_MS)));
            counts.unknown.fetch_add(1, Ordering::SeqCst);
            taking.kill();
            continue;
        }
        match taking.child.wait().unwrap().code() {
            Some(0) => drop(counts.granted.fetch_add(1, Ordering::SeqCst)),
            // On a busy machine a store may answer too late, and what it decided is not known.
            Some(STORE_FAILED) if !is_refusal(&taking.log()) => {
                counts.unknown.fetch_add(1, Ordering::SeqCst);
            }
            _ => return counts.refused(taking.log()),
        }
    }
}

/// Two servers, one of each version, until both deny. The earlier one is replaced in between.
fn take_over_http(home: &Home, counts: &Counts) {
    let servers: Vec<Serving> = BOTH
        .into_iter()
        .filter_map(|version| Serving::start(home, version).map_err(|said| counts.refused(said)).ok())
        .collect();
    assert!(!servers.is_empty(), "no version serves: {:?}", counts.refusals);
    let addresses =
        Mutex::new(servers.iter().map(|serving| serving.address().to_owned()).collect::<Vec<_>>());
    give_back_elsewhere(&addresses.lock().unwrap(), counts);
    let before = counts.asked();
    std::thread::scope(|scope| {
        for server in 0..servers.len() {
            let addresses = &addresses;
            scope.spawn(move || take_from(server, addresses, counts));
        }
        wait_until("half of it is taken", || counts.asked() >= before + REPLACED_AFTER);
        let mut servers = servers.into_iter();
        if let Some(first) = servers.next() {
            first.kill();
            let replaced = Serving::start(home, Version::New).unwrap();
            replaced.address().clone_into(&mut addresses.lock().unwrap()[0]);
            wait_until("all is taken", || counts.denied.load(Ordering::SeqCst) >= 2);
            drop(servers);
        }
    });
}

fn take_from(server: usize, addresses: &Mutex<Vec<String>>, counts: &Counts) {
    loop {
        let address = addresses.lock().unwrap()[server].clone();
        match post(&address, "/v1/take", r#"{"policy": "p"}"#) {
            Answer::Said(200, _) => drop(counts.granted.fetch_add(1, Ordering::SeqCst)),
            Answer::Said(429, _) => break,
            // The store was too slow for it.
            Answer::Said(503, _) => drop(counts.unknown.fetch_add(1, Ordering::SeqCst)),
            Answer::Said(status, body) => panic!("{status} {body}"),
            Answer::Lost => drop(counts.unknown.fetch_add(1, Ordering::SeqCst)),
            // Its place is taken soon.
            Answer::NotSent => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    // A server alone asks twice.
    let servers = addresses.lock().unwrap().len() as u64;
    counts.denied.fetch_add(2 / servers, Ordering::SeqCst);
}

/// What one version granted, the other takes back: nothing is used afterwards.
fn give_back_elsewhere(addresses: &[String], counts: &Counts) {
    let take = r#"{"policy": "p"}"#;
    for (here, there) in addresses.iter().zip(addresses.iter().rev()) {
        let lost = || {
            counts.unknown.fetch_add(1, Ordering::SeqCst);
        };
        let granted = until_decided(here, "/v1/take", take, lost);
        let permit = json!({ "permit": granted["permit"] }).to_string();
        let returned = until_decided(there, "/v1/return", &permit, || {});
        // Once, however often it was sent.
        assert!(returned["settled"] == "whole" || returned["settled"] == "repeated", "{returned}");
    }
}

/// The answer of a server that runs. `lost` is called when the store was too slow for it: what it decided is not known.
fn until_decided(address: &str, path: &str, body: &str, lost: impl Fn()) -> Value {
    loop {
        match post(address, path, body) {
            Answer::Said(200, body) => return body,
            Answer::Said(503, _) => lost(),
            Answer::Said(status, body) => panic!("{status} {body}"),
            Answer::Lost | Answer::NotSent => panic!("a server has ended"),
        }
    }
}
