//! The store in Redis under the suite that every store must pass: on one server, on one that forgets its scripts, and on a
//! Cluster.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollway_core::{Answer, Operation, Store, Timestamp};
use tollway_redis::RedisStore;
use tollway_testkit::conformance::{Effort, Profile, Report, run_with};
use tollway_testkit::servers::{RedisCluster, RedisServer};
use tollway_testkit::{ManualClock, ManualRig, Rig};

/// Keys that would stay for ever.
const WITHOUT_END: &str = "local count = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) < 0 then count = count + 1 end
end
return count";

#[test]
fn one_server_conforms_and_every_key_expires() {
    let server = RedisServer::start();
    let url = format!("{}?deadline=20s", server.url());
    let rig = ManualRig::new(|clock| RedisStore::with_test_clock(&url, clock).unwrap());
    judge(&rig, Effort { sequences: 2_000, rounds: 8, ..Effort::default() });
    assert_ne!(server.command(&["DBSIZE"]), "0");
    assert_eq!(server.command(&["EVAL", WITHOUT_END, "0"]), "0");
}

#[test]
fn a_server_that_forgets_its_scripts_conforms() {
    let server = Arc::new(RedisServer::start());
    let url = format!("{}?deadline=20s", server.url());
    let rig = ManualRig::new(|clock| Forgetful {
        store: RedisStore::with_test_clock(&url, clock).unwrap(),
        server: server.clone(),
        calls: AtomicUsize::new(0),
    });
    judge(&rig, Effort { seed: 50_000, sequences: 100, rounds: 2 });
}

/// Every scenario and sequence has another hash tag, and so another slot: all masters take part. The subjects of one
/// scenario share it, because a take over several slots is refused on a Cluster.
#[test]
fn a_cluster_conforms() {
    let cluster = RedisCluster::start(3);
    let hosts: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let clock = Arc::new(ManualClock::default());
    let store = |tag: usize| {
        let url = format!("redis+cluster://{}?deadline=20s&prefix=%7B{tag}%7D:", hosts.join(","));
        Arc::new(RedisStore::with_test_clock(&url, clock.clone()).unwrap())
    };
    let rig = Slots { stores: (0..9).map(store).collect(), turn: AtomicUsize::new(0), clock: clock.clone() };
    judge(&rig, Effort { seed: 90_000, sequences: 200, rounds: 2 });
    for node in cluster.nodes() {
        assert_ne!(node.command(&["DBSIZE"]), "0", "every master has accounts");
        assert_eq!(node.command(&["EVAL", WITHOUT_END, "0"]), "0");
    }
}

/// Takes over policies in different slots are made part by part, over all masters.
#[test]
fn a_cluster_that_undoes_conforms_to_that_profile() {
    let cluster = RedisCluster::start(3);
    let hosts: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let clock = Arc::new(ManualClock::default());
    let url = format!("redis+cluster://{}?deadline=20s&across_slots=undo", hosts.join(","));
    let store = Arc::new(RedisStore::with_test_clock(&url, clock.clone()).unwrap());
    judge(&Undoing { store, clock }, Effort { seed: 95_000, sequences: 200, rounds: 2 });
    for node in cluster.nodes() {
        assert_ne!(node.command(&["DBSIZE"]), "0", "every master has accounts");
        assert_eq!(node.command(&["EVAL", WITHOUT_END, "0"]), "0");
    }
}

fn judge(rig: &dyn Rig, effort: Effort) {
    let report: Report = run_with(rig, effort).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50);
}

/// A store whose server loses its scripts now and then.
struct Forgetful {
    store: RedisStore,
    server: Arc<RedisServer>,
    calls: AtomicUsize,
}

impl Store for Forgetful {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if self.calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(7) {
            assert_eq!(self.server.command(&["SCRIPT", "FLUSH"]), "OK");
        }
        self.store.apply(batch)
    }
}

/// A store whose accounts are in many slots.
struct Undoing {
    store: Arc<RedisStore>,
    clock: Arc<ManualClock>,
}

impl Rig for Undoing {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }

    fn profile(&self) -> Profile {
        Profile::Undo
    }
}

/// Stores whose accounts are in different slots, by turns.
struct Slots {
    stores: Vec<Arc<RedisStore>>,
    turn: AtomicUsize,
    clock: Arc<ManualClock>,
}

impl Rig for Slots {
    fn store(&self) -> Arc<dyn Store> {
        self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % self.stores.len()].clone()
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}
