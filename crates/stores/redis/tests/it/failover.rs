//! A primary that forgot the last writes, or all of them: what processes read before is told to it, and counts.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, ConnectionLike};
use tollway_core::{
    Action, CallId, Charge, Clock, NewAccounts, Operation, Outcome, PermitId, Policy, Span, Store, Subject,
    Terms, Timestamp,
};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, PlainStore, Random, wait_for};

const START: Timestamp = Timestamp::from_secs(1_794_720_780);

/// A server, the processes that use it, and a store that never forgets.
struct Rig {
    server: RedisServer,
    clock: Arc<ManualClock>,
    processes: Vec<RedisStore>,
    plain: PlainStore,
    permits: u128,
}

/// All accounts of a server at one time.
struct Snapshot(Vec<(Vec<u8>, Vec<u8>)>);

impl Rig {
    fn with_processes(count: usize) -> Self {
        let server = RedisServer::start();
        let clock = Arc::new(ManualClock::at(START));
        let url = format!("{}?deadline=20s", server.url());
        let open = |_| RedisStore::with_test_clock(&url, clock.clone()).unwrap();
        let plain = PlainStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { processes: (0..count).map(open).collect(), server, clock, plain, permits: 0 }
    }

    /// A take of so many by one process; its outcome, and that of the store that never forgets.
    fn take(&mut self, process: usize, charge: &Charge, amount: u64, id: Option<&str>) -> [Outcome; 2] {
        self.permits += 1;
        let cost = charge.policy.cost([("requests", amount)]).unwrap();
        let terms = Terms {
            permit: PermitId(self.permits),
            max_wait: Span::ZERO,
            call: id.map(|id| CallId::new(id).unwrap()),
            readings: false,
            new_accounts: NewAccounts::Make,
        };
        self.apply(process, &Operation::one(charge.clone().with_cost(cost), Action::Take(terms)))
    }

    fn used(&self, process: usize, charge: &Charge) -> [u64; 2] {
        self.apply(process, &Operation::one(charge.clone(), Action::Peek)).map(|outcome| match outcome {
            Outcome::Peeked(charges) => charges[0].readings[0].used,
            other => panic!("{other:?}"),
        })
    }

    fn apply(&self, process: usize, operation: &Operation) -> [Outcome; 2] {
        let one =
            |store: &dyn Store| wait_for(store.apply(std::slice::from_ref(operation))).unwrap().remove(0);
        [one(&self.processes[process]), one(&self.plain)]
    }

    fn connection(&self) -> Connection {
        redis::Client::open(self.server.url()).unwrap().get_connection().unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        let mut connection = self.connection();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        let mut dump = |key: Vec<u8>| {
            let value = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
            (key, value)
        };
        Snapshot(keys.into_iter().map(&mut dump).collect())
    }

    /// Another primary takes over, which has only what was written before the snapshot.
    fn fail_over(&self, snapshot: &Snapshot) {
        self.server.restart_empty();
        let mut connection = self.connection();
        for (key, value) in &snapshot.0 {
            let restore = redis::cmd("RESTORE").arg(key).arg(0).arg(value).to_owned();
            connection.req_command(&restore).unwrap();
        }
    }

    /// Calls until the store answers: the first one may find that its connection is gone.
    fn reconnect(&self) {
        let policy = Arc::new(Policy::new("reconnect", ["1 / day"]).unwrap());
        let peek = [Operation::one(Charge::new(policy, Subject::SHARED), Action::Peek)];
        for process in &self.processes {
            let answered = (0..200).any(|_| wait_for(process.apply(&peek)).is_ok());
            assert!(answered, "the store does not come back");
        }
    }
}

fn charge(name: &str, limits: &[&str]) -> Charge {
    let policy = Policy::new(name, limits.iter().copied()).unwrap();
    Charge::new(Arc::new(policy), Subject::new("of-all").unwrap())
}

fn is_granted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Decided(decision) if decision.is_granted())
}

const LIMITS: [&str; 6] = [
    "10 / day",
    "10 / 6 hours",
    "10 / day from first call",
    "10 / day sliding",
    "10 / day bucket",
    "10 / day in Asia/Tokyo",
];

/// A server that comes back empty grants what is left, and not the whole limit again.
#[test]
fn a_server_that_came_back_empty_is_told_what_was_used() {
    for limit in LIMITS {
        let mut rig = Rig::with_processes(1);
        let charge = charge("empty", &[limit]);
        for _ in 0..7 {
            assert!(is_granted(&rig.take(0, &charge, 1, None)[0]));
        }
        rig.fail_over(&Snapshot(Vec::new()));
        rig.reconnect();
        assert_eq!(rig.used(0, &charge), [7, 7], "{limit}");
        let granted = (0..10).filter(|_| is_granted(&rig.take(0, &charge, 1, None)[0])).count();
        assert_eq!(granted, 3, "{limit}");
    }
}

/// The largest count that was read and what was granted since, in whatever order processes come.
#[test]
fn what_processes_read_commutes() {
    for limit in LIMITS {
        for first in [0, 1] {
            let mut rig = Rig::with_processes(2);
            let charge = charge("commutes", &[limit]);
            let take = |rig: &mut Rig, process| assert!(is_granted(&rig.take(process, &charge, 1, None)[0]));
            take(&mut rig, 0);
            let replicated = rig.snapshot();
            for process in [0, 0, 1, 1] {
                take(&mut rig, process);
            }
            rig.fail_over(&replicated);
            rig.reconnect();
            // One takes before the other has said what it read; both say it again and again.
            for process in [first, first, 1 - first, first] {
                take(&mut rig, process);
            }
            assert_eq!(rig.used(1 - first, &charge), [9, 9], "{limit}, {first} comes first");
        }
    }
}

/// An id counts once, and a queue is not overtaken, also on a primary that forgot them.
#[test]
fn ids_are_told() {
    let mut rig = Rig::with_processes(1);
    let charge = charge("ids", &["10 / day"]);
    let [granted, _] = rig.take(0, &charge, 1, Some("once"));
    rig.fail_over(&Snapshot(Vec::new()));
    rig.reconnect();
    let [again, _] = rig.take(0, &charge, 1, Some("once"));
    let permit = |outcome: &Outcome| match outcome {
        Outcome::Decided(decision) => decision.booking().unwrap().permit,
        other => panic!("{other:?}"),
    };
    assert_eq!(permit(&granted), permit(&again));
    assert_eq!(rig.used(0, &charge), [1, 1]);
}

/// B1: of what a replica had not received, hardly anything is granted twice while the processes that were told are alive. All
/// take as fast as they can; the calls stop while no server answers.
#[test]
fn hardly_anything_is_granted_twice_after_a_failover() {
    const LIMIT: u64 = 6_000;
    let rig = Rig::with_processes(8);
    let charge = charge("lagging", &[&format!("{LIMIT} / day")]);
    let granted = AtomicU64::new(0);
    let take_until = |enough: u64| {
        std::thread::scope(|scope| {
            for (number, process) in rig.processes.iter().enumerate() {
                let (charge, granted) = (&charge, &granted);
                scope.spawn(move || {
                    let mut permit = (u128::from(enough) << 64) + ((number as u128) << 32);
                    while granted.load(Ordering::Relaxed) < enough {
                        permit += 1;
                        let action = Action::Take(Terms::now(PermitId(permit)));
                        let take = [Operation::one(charge.clone(), action)];
                        if !is_granted(&wait_for(process.apply(&take)).unwrap()[0]) {
                            break;
                        }
                        granted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    };
    take_until(LIMIT / 2);
    let replicated = rig.snapshot();
    take_until(LIMIT * 3 / 4);
    rig.fail_over(&replicated);
    rig.reconnect();
    take_until(u64::MAX >> 1);
    let (granted, forgotten) = (granted.into_inner(), LIMIT / 4);
    assert!(granted >= LIMIT, "{granted}");
    assert!(granted - LIMIT <= forgotten / 20, "{} of {forgotten} were granted twice", granted - LIMIT);
}

/// A window that is over is not told: the next one begins empty.
#[test]
fn what_has_ended_is_not_told() {
    let mut rig = Rig::with_processes(1);
    let charge = charge("ended", &["10 / hour"]);
    rig.take(0, &charge, 8, None);
    rig.fail_over(&Snapshot(Vec::new()));
    rig.reconnect();
    rig.clock.advance(Span::from_secs(3_600));
    assert_eq!(rig.used(0, &charge), [0, 0]);
    assert!(is_granted(&rig.take(0, &charge, 10, None)[0]));
}

/// Random takes of three processes, and a primary that forgets the last of them: once each process has come again, accounts
/// are those of a store that never forgets.
#[test]
fn random_writes_that_were_forgotten_count_again() {
    let charges: Vec<Charge> = LIMITS
        .iter()
        .enumerate()
        .map(|(number, limit)| charge(&format!("random-{number}"), &[limit, "1000 / 2 days bucket"]))
        .collect();
    let mut forgotten = 0;
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut rig = Rig::with_processes(3);
        for round in 0..4 {
            let (mut replicated, mut unreplicated) = (rig.snapshot(), 0);
            for step in 0..random.between(1, 60) {
                let charge = &charges[random.below(charges.len() as u64) as usize];
                let process = random.below(3) as usize;
                let [ours, plain] = rig.take(process, charge, random.below(3), None);
                let same = is_granted(&ours) == is_granted(&plain);
                assert!(same, "seed {seed}, round {round}, step {step}: {ours:?} for {plain:?}");
                unreplicated += 1;
                if random.percent(10) {
                    (replicated, unreplicated) = (rig.snapshot(), 0);
                }
                rig.clock.advance(Span::from_secs(random.below(2) * random.below(3_000)));
            }
            forgotten += unreplicated;
            rig.fail_over(&replicated);
            rig.reconnect();
            let mut order = [0, 1, 2, 0, 1, 2];
            order.rotate_left(random.below(3) as usize);
            for charge in &charges {
                order.iter().for_each(|process| assert!(rig.used(*process, charge)[0] <= 1_000));
                let [ours, plain] = rig.used(0, charge);
                assert_eq!(ours, plain, "seed {seed}, round {round}: {charge:?}");
            }
        }
    }
    assert!(forgotten > 100, "only {forgotten} writes were forgotten");
}
