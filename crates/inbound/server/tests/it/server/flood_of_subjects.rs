//! Callers that invent subjects, and callers that send more than the store can answer: no limit is switched off.
//!
//! `scripts/check-floods` runs the test of a small Redis for longer and prints the latencies of an honest connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use serde_json::{Value, json};
use tollway::alarm::StoreAlarm;
use tollway_testkit::servers::RedisServer;

use crate::call::{SHOULD_RATE_LIMIT, framed};
use crate::client::Client;
use crate::messages::{OK, OVER_LIMIT, RateLimitResponse, descriptor, question};
use crate::redis_client::RedisClient;
use crate::running::{LONG, Running};

/// How long the flood of a small Redis lasts, in seconds, in place of the short one of a test.
const SECONDS: &str = "TOLLWAY_FLOOD_SECONDS";

fn config(redis: &RedisServer, more: &str) -> String {
    format!(
        "[store]\nurl = \"{}?deadline=10s\"\n[policies.api]\nlimits = [\"5 / hour\"]\nwhen_store_fails = \"open\"\n{more}",
        redis.url()
    )
}

fn take(client: &mut Client, subject: &str) -> u16 {
    client.take(&format!(r#"{{"policy":"api","subject":"{subject}"}}"#)).status
}

/// Lowers `maxmemory` to what is used and so many bytes.
fn leave_room_for(redis: &RedisServer, bytes: u64) {
    let info = redis.command(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let most = used.trim().parse::<u64>().unwrap() + bytes;
    assert_eq!(redis.command(&["CONFIG", "SET", "maxmemory", &most.to_string()]), "OK");
}

fn fallbacks(server: &Running) -> u64 {
    server.server.limiter().store_status().fallbacks
}

/// C7, G7: with a full Redis, a policy that is open still holds a known caller to its limit, and new ones are answered.
#[test]
fn a_full_redis_switches_no_limit_off() {
    let redis = RedisServer::start();
    let server = Running::of(&config(&redis, ""));
    let mut client = server.client();
    assert_eq!((take(&mut client, "known"), take(&mut client, "known")), (200, 200));
    redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let answers: Vec<u16> = (0..6).map(|_| take(&mut client, "known")).collect();
    assert_eq!(answers, [200, 200, 200, 429, 429, 429]);
    for id in 0..200 {
        let status = take(&mut client, &format!("new {id}"));
        assert!([200, 429].contains(&status), "{status}");
    }
    let answers: Vec<u16> = (0..6).map(|_| take(&mut client, "new")).collect();
    assert!(answers.contains(&429), "{answers:?}");
    assert_eq!(fallbacks(&server), 0);
    assert_ne!(server.admin().get("/ready", "").json()["status"], "degraded");
}

/// A client network that brings more new subjects than it may gets no more accounts for them; another network does.
#[test]
fn new_subjects_of_a_network_are_bounded() {
    let redis = RedisServer::start();
    let more = "[server]\nnew_subjects = \"20 / hour\"\n[server.address]\ntrusted_networks = [\"127.0.0.0/8\"]\n\
                [server.authorize]\nsubject_headers = [\"x-key\"]\n";
    let server = Running::of(&config(&redis, more));
    let mut client = server.client();
    let mut ask = |key: &str, from: &str| {
        let headers = format!("x-key: {key}\r\nx-forwarded-for: {from}\r\n");
        client.get("/v1/authorize?policy=api", &headers).status
    };
    assert_eq!(ask("known", "198.51.100.1"), 200);
    for id in 0..200 {
        let status = ask(&format!("invented {id}"), &format!("203.0.113.{id}"));
        assert!([200, 429].contains(&status), "{status}");
    }
    let accounts = |pattern: &str| redis.command(&["KEYS", pattern]).lines().count();
    let own = accounts("tollway:1:{s:x-key%3Ainvented*}:api");
    assert!((20..=21).contains(&own), "{own}");
    assert!(accounts("tollway:1:{o:*}:api") > 100);
    // A known subject is counted as always, from the flood's network too; another network brings new ones.
    assert_eq!((0..6).map(|_| ask("known", "203.0.113.9")).filter(|status| *status == 200).count(), 4);
    assert_eq!(ask("other", "198.51.100.1"), 200);
    assert_eq!(accounts("tollway:1:{s:x-key%3Aother}:api"), 1);
    let metrics = server.admin().get("/metrics", "").body;
    let bounded = metrics.lines().find_map(|line| line.strip_prefix("tollway_new_subjects_bounded_total "));
    let bounded: u32 = bounded.unwrap().parse().unwrap();
    assert!(bounded >= 179, "{bounded}");
}

/// A process makes at most `subjects_max` accounts of a policy: further new subjects share accounts, known ones keep theirs, and
/// another policy is not concerned.
#[test]
fn subjects_of_a_policy_are_bounded() {
    let redis = RedisServer::start();
    let more = "subjects_max = 20\n[policies.other]\nlimits = [\"5 / hour\"]\n";
    let server = Running::of(&config(&redis, more));
    let mut client = server.client();
    assert_eq!(take(&mut client, "known"), 200);
    for id in 0..200 {
        let status = take(&mut client, &format!("invented {id}"));
        assert!([200, 429].contains(&status), "{status}");
        // Not of a network, so that only the policy has a bound.
        let other = client.take(&format!(r#"{{"policy":"other","subject":"invented {id}"}}"#));
        assert_eq!(other.status, 200);
    }
    let accounts =
        |pattern: &str| redis.command(&["KEYS", pattern]).lines().filter(|key| !key.is_empty()).count();
    assert_eq!(accounts("tollway:1:{s:invented*}:api"), 19);
    assert_eq!(accounts("tollway:1:{s:invented*}:other"), 200);
    assert!(accounts("tollway:1:{o:*}:api") > 100);
    assert_eq!((0..6).map(|_| take(&mut client, "known")).filter(|status| *status == 200).count(), 4);
    let granted = (0..6).map(|_| take(&mut client, "new")).filter(|status| *status == 200).count();
    assert!(granted <= 5, "{granted}");
}

/// The names of sixteen policies, and a batch of a hundred takes under all of them.
fn largest_batch() -> (String, String) {
    let policies: String =
        (0..16).map(|number| format!("[policies.p{number}]\nlimits = [\"1000000 / hour\"]\n")).collect();
    let charges: Vec<Value> =
        (0..16).map(|number| json!({ "policy": format!("p{number}"), "subject": "s" })).collect();
    let takes: Vec<Value> = (0..100).map(|_| json!({ "all": charges })).collect();
    (policies, Value::from(takes).to_string())
}

/// Takes beyond what the store can answer in time are denied, not failed, and the breaker stays closed: another connection
/// is decided by the store.
#[test]
fn too_many_charges_in_flight_are_denied() {
    let redis = RedisServer::start();
    let (policies, batch) = largest_batch();
    let server = Running::of(&config(&redis, &format!("[server]\nworkers = 1\n{policies}")));
    let mut honest = server.client();
    assert_eq!(take(&mut honest, "honest"), 200);
    redis.command(&["CLIENT", "PAUSE", "1500", "ALL"]);
    let floods: Vec<_> = (0..20)
        .map(|_| {
            let (mut client, batch) = (server.client(), batch.clone());
            thread::spawn(move || client.take(&batch))
        })
        .collect();
    // Most of them have arrived before it, and it has its share nevertheless.
    thread::sleep(Duration::from_millis(500));
    let answers: Vec<u16> = (0..5).map(|_| take(&mut honest, "honest")).collect();
    assert_eq!(answers, [200, 200, 200, 200, 429]);
    let mut denied = 0;
    for flood in floods {
        let answer = flood.join().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        for entry in answer.json().as_array().unwrap() {
            if entry["status"] == 429 {
                assert_eq!(entry["type"], "urn:tollway:too-many-charges");
                denied += 1;
            } else {
                assert_eq!((&entry["granted"], &entry["degraded"]), (&json!(true), &json!(false)), "{entry}");
            }
        }
    }
    assert!(denied > 500, "{denied}");
    assert_eq!(fallbacks(&server), 0);
    let metrics = server.admin().get("/metrics", "").body;
    assert!(metrics.contains(&format!("tollway_charges_denied_total {denied}\n")), "{denied}: {metrics}");
    let alarms = server.server.limiter().store_alarms();
    assert!(alarms.contains(&StoreAlarm::ChargesLimited), "{alarms:?}");
}

/// B10: Envoy may let a request through on an error, so a call beyond the budget is over its limit.
#[test]
fn a_call_of_envoy_beyond_the_budget_is_over_its_limit() {
    let redis = RedisServer::start();
    let (policies, batch) = largest_batch();
    // A policy whose own limit denies none of these calls, in whatever order they are read.
    let rule = "[[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"k\"]\npolicy = \"p0\"\n";
    let server = Running::of(&config(&redis, &format!("{policies}[server]\nworkers = 1\n{rule}")));
    let asked = question([descriptor(&["k=v"])]);
    let mut envoy = server.envoy();
    assert_eq!(envoy.ask(&asked).overall_code, OK);
    redis.command(&["CLIENT", "PAUSE", "1000", "ALL"]);
    let batches = (0..4).map(|_| ("/v1/take", "application/json", Bytes::from(batch.clone())));
    // The server reads them in any order: the first calls may come before the batches.
    let call = Bytes::from(framed(&asked.encode_to_vec()));
    let calls = std::iter::repeat_n((SHOULD_RATE_LIMIT, "application/grpc", call), 16);
    let replies = envoy.send_all(batches.chain(calls));
    let replies = &replies[4..];
    assert!(replies.iter().all(|reply| reply.status == Some(0)), "{replies:?}");
    let denied = |response: &RateLimitResponse| response.overall_code == OVER_LIMIT;
    let response: RateLimitResponse = replies.iter().map(|reply| reply.read()).find(denied).unwrap();
    let retry_after = response.response_headers_to_add.iter().find(|header| header.key == "retry-after");
    assert_eq!(retry_after.map(|header| header.value.as_str()), Some("1"));
    assert_eq!(envoy.ask(&asked).overall_code, OK, "a second later");
}

/// Redis clients are told to wait for a second.
#[test]
fn a_redis_client_beyond_the_budget_is_limited() {
    let redis = RedisServer::start();
    let server = Running::of(&config(&redis, "[server]\nworkers = 16\nresp = \"127.0.0.1:0\"\n"));
    let mut client = RedisClient::of(&server);
    redis.command(&["CLIENT", "PAUSE", "1000", "ALL"]);
    let commands: String = (0..400).map(|key| format!("CL.THROTTLE k{key} 4 1 60\r\n")).collect();
    client.write(&commands).unwrap();
    let replies: Vec<String> = (0..400).map(|_| client.reply()).collect();
    let limited = "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:1\r\n";
    let denied = replies.iter().filter(|reply| *reply == limited).count();
    assert!(
        denied > 0
            && replies.iter().all(|reply| reply == limited || reply.starts_with("*5\r\n:0\r\n:5\r\n:4")),
        "{replies:?}"
    );
}

/// Items of an attack together, on a Redis with little memory: known callers never get more than their limit, and an honest
/// connection is answered.
#[test]
#[allow(clippy::print_stdout, reason = "the latencies are what a longer run is for")]
fn known_callers_keep_their_limits_on_a_small_redis() {
    let seconds = std::env::var(SECONDS).ok().map_or(2, |seconds| seconds.parse().unwrap());
    let redis = RedisServer::start();
    let (policies, batch) = largest_batch();
    let server = Running::of(&config(&redis, &policies));
    let known: Vec<String> = (0..8).map(|id| format!("known {id}")).collect();
    let mut client = server.client();
    let mut granted = vec![1; known.len()];
    known.iter().for_each(|subject| assert_eq!(take(&mut client, subject), 200));
    leave_room_for(&redis, 50_000);
    let (stop, invented) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut latencies = Vec::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client();
            let (stop, invented) = (&stop, &invented);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let id = invented.fetch_add(1, Ordering::Relaxed);
                    assert!([200, 429].contains(&take(&mut client, &format!("invented {id}"))));
                }
            });
        }
        for _ in 0..2 {
            let (mut client, stop, batch) = (server.client(), &stop, &batch);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.take(batch).status, 200);
                }
            });
        }
        let begun = Instant::now();
        // However slow the machine is, each asks for more than its limit.
        while begun.elapsed() < Duration::from_secs(seconds) || latencies.len() < 7 * known.len() {
            for (subject, granted) in known.iter().zip(&mut granted) {
                let asked = Instant::now();
                let status = take(&mut client, subject);
                latencies.push(asked.elapsed());
                *granted += u64::from(status == 200);
                assert!([200, 429].contains(&status), "{status}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_ne!(redis.command(&["KEYS", "tollway:1:{o:*}:api"]), "", "the server was never full");
    assert!(granted.iter().all(|granted| *granted == 5), "{granted:?}");
    assert_eq!(fallbacks(&server), 0);
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    println!(
        "{} invented subjects, {} honest takes, p99 {p99:?}, maximum {:?}",
        invented.load(Ordering::Relaxed),
        latencies.len(),
        latencies.last().unwrap()
    );
    assert!(p99 < LONG);
}
