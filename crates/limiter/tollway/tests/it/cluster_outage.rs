//! A Cluster of which one node is away: subjects of the other nodes notice nothing (G7, B1).
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollway::core::WhenStoreFails;
use tollway::{Limiter, Policy, Taken};
use tollway_testkit::servers::RedisCluster;

const MASTERS: usize = 3;

/// The node that goes away.
const GONE: usize = 0;

/// So many units a subject has; no window ends while a test runs.
const AMOUNT: u64 = 300;

/// What takes of one subject were answered with.
#[derive(Debug, Default)]
struct Seen {
    granted: u64,
    degraded: u64,
    failed: u64,
}

struct Lab {
    cluster: RedisCluster,
    limiter: Limiter,
    /// One of each node.
    subjects: Vec<String>,
}

impl Lab {
    fn new(cluster: RedisCluster) -> Self {
        let limit = format!("{AMOUNT} requests / day from first call");
        let policy = |name, when| Policy::new(name, [&*limit]).unwrap().with_when_store_fails(when);
        let url = format!("redis+cluster://{}?deadline=2s", cluster.nodes()[1].addr());
        let limiter = Limiter::builder()
            .with_policy(policy("local", WhenStoreFails::Local))
            .unwrap()
            .with_policy(policy("closed", WhenStoreFails::Closed))
            .unwrap()
            .store_at(&url.parse().unwrap())
            .unwrap()
            .build();
        let on = |node: usize| {
            let mut subjects = (0..1_000).map(|number| number.to_string());
            let port = cluster.nodes()[node].port();
            let is_there = |subject: &String| {
                cluster.node_of(&format!("tollway:1:{{s:{subject}}}:local")).port() == port
            };
            subjects.find(is_there).unwrap()
        };
        let subjects: Vec<String> = (0..MASTERS).map(on).collect();
        let lab = Self { subjects, cluster, limiter };
        for subject in &lab.subjects {
            until(|| {
                lab.limiter.try_take("local").subject(subject).now().is_ok_and(|taken| !is_degraded(&taken))
            });
        }
        lab
    }

    fn is_away(&self) -> bool {
        let status = self.limiter.store_status();
        let gone = self.cluster.nodes()[GONE].addr().to_string();
        assert!(status.nodes_away.iter().all(|node| node.name == gone), "{status:?}");
        !status.nodes_away.is_empty()
    }

    fn is_back(&self) -> bool {
        self.limiter.store_status().degraded_since.is_none()
    }

    fn used(&self, subject: &str) -> u64 {
        self.limiter.usage("local").subject(subject).now().unwrap().limits[0].used
    }

    fn take(&self, subject: &str, seen: &mut Seen) {
        match self.limiter.try_take("local").subject(subject).now() {
            Ok(taken) => {
                seen.granted += u64::from(taken.is_granted());
                seen.degraded += u64::from(is_degraded(&taken));
            }
            Err(_) => seen.failed += 1,
        }
    }

    /// Takes of all subjects while the node goes away and comes back. Those of the other nodes notice nothing. A replica that takes
    /// over may lack the last writes.
    fn survives(&self, comes_back: ComesBack, away: impl Fn(), back: impl Fn()) {
        let before: Vec<u64> = self.subjects.iter().map(|subject| self.used(subject)).collect();
        let over = AtomicBool::new(false);
        let take_on = |subject: &str| {
            let mut seen = Seen::default();
            while !over.load(Ordering::SeqCst) {
                self.take(subject, &mut seen);
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        };
        let seen: Vec<Seen> = std::thread::scope(|scope| {
            // The takers end, too, if an assertion fails.
            let end = EndsTakes(&over);
            let takers: Vec<_> =
                self.subjects.iter().map(|subject| scope.spawn(|| take_on(subject))).collect();
            away();
            until(|| self.is_away());
            let closed = |node: usize| self.limiter.try_take("closed").subject(&self.subjects[node]).now();
            assert!(closed(GONE).is_err());
            (1..MASTERS).for_each(|node| assert!(!is_degraded(&closed(node).unwrap())));
            // Each of them is asked some more while the breaker of the other is open.
            std::thread::sleep(Duration::from_millis(500));
            back();
            until(|| self.is_back());
            assert!(closed(GONE).is_ok());
            drop(end);
            takers.into_iter().map(|taker| taker.join().unwrap()).collect()
        });
        for (node, seen) in seen.iter().enumerate() {
            let used = self.used(&self.subjects[node]);
            assert!(used <= AMOUNT && seen.granted > 0, "{used} used: {seen:?}");
            if node == GONE {
                assert!(seen.degraded > 0, "{seen:?}");
                assert!(
                    comes_back == ComesBack::AsReplica || used >= before[node] + seen.granted,
                    "{used} used, {} before: {seen:?}",
                    before[node]
                );
            } else {
                assert_eq!((seen.degraded, seen.failed), (0, 0), "subject of node {node}: {seen:?}");
                assert_eq!(used, before[node] + seen.granted);
            }
        }
        let status = self.limiter.store_status();
        assert!(status.nodes_away.is_empty() && status.fallbacks >= 1, "{status:?}");
    }
}

/// What comes back of a node.
#[derive(Clone, Copy, PartialEq)]
enum ComesBack {
    Itself,
    AsReplica,
}

/// Ends the takes of all subjects when it is dropped.
struct EndsTakes<'a>(&'a AtomicBool);

impl Drop for EndsTakes<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn is_degraded(taken: &Taken<'_>) -> bool {
    match taken {
        Taken::Granted(permit) => permit.degraded(),
        Taken::Denied(denied) => denied.degraded(),
    }
}

fn until(reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// G7: one of three masters is killed, and comes back with its data.
#[test]
fn g7_a_killed_node_fails_its_own_subjects_only() {
    let lab = Lab::new(RedisCluster::start_independent(MASTERS));
    let gone = &lab.cluster.nodes()[GONE];
    lab.survives(ComesBack::Itself, || gone.kill(), || gone.restart());
}

/// G7: one of three masters accepts connections and answers nothing.
#[test]
fn g7_a_frozen_node_delays_its_own_subjects_only() {
    let lab = Lab::new(RedisCluster::start_independent(MASTERS));
    let gone = &lab.cluster.nodes()[GONE];
    lab.survives(ComesBack::Itself, || gone.pause(), || gone.resume());
}

/// G7, B1: the replica of a killed master takes over, and is used without a restart or a setting.
#[test]
fn g7_a_replica_that_takes_over_is_used() {
    let lab = Lab::new(RedisCluster::start_with_replicas(MASTERS));
    let gone = &lab.cluster.nodes()[GONE];
    lab.survives(
        ComesBack::AsReplica,
        || {
            // So that the replica has nearly all of it.
            std::thread::sleep(Duration::from_millis(200));
            gone.kill();
        },
        || {
            lab.cluster.promote_replica_of(GONE);
        },
    );
}
