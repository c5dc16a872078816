//! The layout `consumers` keeps to the engine's rules: never over, together or not at all, once, and corrected only in the
//! window it was booked in. On real time, as in `consumers.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use crate::asking::{SIX, minute, number, of, open, outlive, policy, terms};
use tollway_core::{
    Begun, Booking, CallId, Decision, Grant, Operation, Outcome, Party, Period, PermitId, Refusal, Settled,
    Span, Store, Subject, Terms, Timestamp, Verb,
};
use tollway_redis::{RedisStore, counter_key};
use tollway_testkit::faults::{Fault as Toxic, FaultProxy};
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, PlainStore, Random, wait_for};

/// I3: one limit without room keeps all others from counting, wherever it stands.
#[test]
fn six_limits_count_together_or_not_at_all() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&SIX));
    for (index, period) in Period::ALL.into_iter().enumerate() {
        let subject = format!("together-{period}");
        let key = counter_key(period, &Subject::new(&subject).unwrap());
        let full = policy.limits()[index].amount().to_string();
        // Longer than a second, for the one of a second must not end under us.
        server.command(&["SET", &key, &full, "EX", "3600"]);
        let denial = of(&store, &policy, &subject).denied();
        assert_eq!((denial.party, denial.limit), (0, index), "{period}");
        assert_eq!(server.command(&["KEYS", &format!("{subject}_*")]), key);
    }
    let grant = of(&store, &policy, "together").take();
    assert_eq!(grant.readings.iter().map(|reading| reading.used).collect::<Vec<_>>(), [1; 6]);
}

/// I2: a denial writes nothing at all, and neither does looking.
#[test]
fn a_denial_writes_nothing() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(2));
    let consumer = of(&store, &policy, "c");
    let changes = || {
        let info = server.command(&["INFO", "persistence"]);
        info.lines().find(|line| line.starts_with("rdb_changes")).unwrap().to_owned()
    };
    consumer.take();
    let before = changes();
    let foreseen = consumer.apply(Verb::Preview(terms(None))).unwrap();
    assert!(matches!(&foreseen, Outcome::Decided(Decision::Granted(grant)) if grant.readings[0].used == 2));
    assert_eq!(consumer.used(), [1]);
    let id = CallId::new("foreseen").unwrap();
    consumer.apply(Verb::Preview(terms(Some(&id)))).unwrap();
    assert_eq!(changes(), before);
    consumer.take();
    let before = changes();
    consumer.denied();
    assert!(matches!(consumer.decide(Some("id")), Decision::Denied(_)));
    assert_eq!(changes(), before);
}

/// I1: two stores, as two processes have them, and eight threads: exactly the amount is granted.
#[test]
fn threads_never_exceed() {
    let server = RedisServer::start();
    let stores = [open(&server), open(&server)];
    let policy = policy(&["300 / hour from first call", "200 / day from first call"]);
    let granted: usize = std::thread::scope(|scope| {
        let hammer = |thread: usize| {
            let consumer = of(&stores[thread % 2], &policy, "race");
            scope.spawn(move || {
                (0..50).filter(|_| matches!(consumer.decide(None), Decision::Granted(_))).count()
            })
        };
        let threads: Vec<_> = (0..8).map(hammer).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(granted, 200);
    assert_eq!(server.command(&["MGET", "race_PER_HOUR", "race_PER_DAY"]), "200\n200");
}

/// What is asked together is applied in order, in one call: windows begin, end by a reset and begin again in it.
#[test]
fn operations_of_one_call_see_each_other() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    let subject = Subject::new("c").unwrap();
    let parties = [Party { policy: &policy, subject: &subject, cost: policy.default_cost() }];
    server.command(&["SETEX", "c_PER_MINUTE", "30", "3"]);
    let [take, preview] = [Verb::Take(terms(None)), Verb::Preview(terms(None))];
    let verbs =
        [take, preview, Verb::Peek, take, take, Verb::Reset, preview, Verb::Peek, take, preview, Verb::Peek];
    let batch = verbs.map(|verb| Operation { parties: &parties, verb });
    let used = |outcome: &Outcome| match outcome {
        Outcome::Decided(Decision::Granted(Grant { readings, .. })) | Outcome::Peeked(readings) => {
            Some(readings[0].used)
        }
        _ => None,
    };
    let outcomes: Vec<_> = wait_for(store.apply(&batch)).unwrap().iter().map(used).collect();
    let [denied, reset] = [None, None];
    let expected =
        [Some(4), Some(5), Some(4), Some(5), denied, reset, Some(1), Some(0), Some(1), Some(2), Some(1)];
    assert_eq!(outcomes, expected);
    assert_eq!(server.command(&["GET", "c_PER_MINUTE"]), "1");
    let left = number(&server, &["PTTL", "c_PER_MINUTE"]);
    assert!(left > 30_000 && left <= 60_000, "a window of its own: {left} ms");
}

/// I5: a take repeated with its id counts once; given back, the id takes again.
#[test]
fn ids_count_once() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    let consumer = of(&store, &policy, "c");
    let Decision::Granted(first) = consumer.decide(Some("a")) else { panic!("there is room") };
    let Decision::Granted(again) = consumer.decide(Some("a")) else { panic!("it is known") };
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.booking(), again.booking());
    assert_eq!(consumer.used(), [1]);
    let dearer = of(&store, &policy, "c").costing(2);
    let id = CallId::new("a").unwrap();
    let refused = dearer.apply(Verb::Take(terms(Some(&id)))).unwrap();
    assert_eq!(refused, Outcome::Refused(Refusal::IdReused("a".to_owned())));
    assert_eq!(consumer.give_back(first.booking(), false), Settled::Whole);
    let Decision::Granted(anew) = consumer.decide(Some("a")) else { panic!("there is room") };
    assert!(!anew.repeated);
    assert_eq!(consumer.used(), [1]);
    // A reset makes counters new, not calls.
    assert_eq!(consumer.apply(Verb::Reset).unwrap(), Outcome::Reset);
    assert!(matches!(consumer.decide(Some("a")), Decision::Granted(grant) if grant.repeated));
    let other = policy.with_limits(policy.limits().to_vec()).unwrap();
    assert!(matches!(of(&store, &other, "d").decide(Some("a")), Decision::Granted(grant) if !grant.repeated));
}

/// No more than 1,024 ids are remembered: one more is refused, not forgotten.
#[test]
fn ids_are_bounded() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5_000));
    let subject = Subject::new("c").unwrap();
    let ids: Vec<CallId> = (0..1_024).map(|id| CallId::new(&id.to_string()).unwrap()).collect();
    let party = [Party { policy: &policy, subject: &subject, cost: policy.default_cost() }];
    let takes: Vec<_> =
        ids.iter().map(|id| Operation { parties: &party, verb: Verb::Take(terms(Some(id))) }).collect();
    wait_for(store.apply(&takes)).unwrap();
    let consumer = of(&store, &policy, "c");
    let more = CallId::new("more").unwrap();
    let refused = consumer.apply(Verb::Take(terms(Some(&more)))).unwrap();
    assert_eq!(refused, Outcome::Refused(Refusal::TooManyIds));
    assert!(matches!(consumer.decide(Some("7")), Decision::Granted(grant) if grant.repeated));
    assert_eq!(consumer.used(), [1_024]);
}

/// I5: the server has done it and nobody heard. It is asked again, and it counts once.
#[test]
fn a_take_whose_answer_is_lost_counts_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.addr());
    let store = RedisStore::open(&format!("redis://{}?layout=consumers&deadline=20s", proxy.addr())).unwrap();
    let policy = minute(100);
    let consumer = of(&store, &policy, "c");
    consumer.take();
    for _ in 0..5 {
        proxy.set(Toxic::LoseReplies { times: Some(1) });
        consumer.take();
    }
    assert_eq!(proxy.counts().replies_lost, 5);
    assert_eq!(consumer.used(), [6]);
}

/// A correction counts in the window it was booked in, and in no other.
#[test]
fn corrections_keep_to_their_window() {
    let server = RedisServer::start();
    let (store, policy) =
        (open(&server), policy(&["5 / minute from first call", "9 / hour from first call"]));
    let consumer = of(&store, &policy, "c").costing(2);
    let [returned, dearer, late] = [consumer.take(), consumer.take(), of(&store, &policy, "c").take()];
    assert_eq!(consumer.give_back(returned.booking(), true), Settled::Whole);
    assert_eq!(consumer.give_back(returned.booking(), true), Settled::Repeated);
    assert_eq!(consumer.settle(dearer.booking(), 7), Settled::Whole);
    assert_eq!(consumer.used(), [8, 8]);
    // The minute ends, the hour runs on.
    server.command(&["PEXPIRE", "c_PER_MINUTE", "1"]);
    outlive(&server, "c_PER_MINUTE");
    of(&store, &policy, "c").take();
    assert_eq!(consumer.used(), [1, 9]);
    assert_eq!(of(&store, &policy, "c").give_back(late.booking(), false), Settled::Partly);
    assert_eq!(consumer.used(), [1, 8]);
    // Never below nothing, whatever others made of it.
    let last = of(&store, &policy, "c").take();
    server.command(&["SET", "c_PER_MINUTE", "0", "KEEPTTL"]);
    assert_eq!(of(&store, &policy, "c").give_back(last.booking(), false), Settled::Whole);
    assert_eq!(consumer.used(), [0, 8]);
}

/// `begin` is free while the permit's window runs; too late, it takes again, once.
#[test]
fn begin_takes_again_once_when_it_is_too_late() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    let consumer = of(&store, &policy, "c");
    let booking = consumer.take().booking();
    assert_eq!(consumer.apply(Verb::Begin(booking, terms(None))).unwrap(), Outcome::Begun(Begun::Now));
    let late = Booking { good_until: booking.at, ..booking };
    for repeated in [false, true, true] {
        let begun = consumer.apply(Verb::Begin(late, terms(None))).unwrap();
        let Outcome::Begun(Begun::Again(Decision::Granted(grant))) = begun else { panic!("{begun:?}") };
        assert_eq!(grant.repeated, repeated);
    }
    assert_eq!(consumer.used(), [2]);
    assert_eq!(consumer.apply(Verb::Done(booking.permit)).unwrap(), Outcome::Done(false));
    assert_eq!(consumer.apply(Verb::Renew(booking.permit)).unwrap(), Outcome::Renewed(true));
}

/// Random takes, previews and corrections, some with ids, are answered as by the plain store. Its clock stands still, and
/// no window here ends.
#[test]
fn it_decides_as_the_engine_does() {
    let server = RedisServer::start();
    let store = open(&server);
    let plain = PlainStore::new(Arc::new(ManualClock::at(Timestamp::from_secs(1_794_720_780))));
    let limits = ["40 / hour from first call", "60 / day from first call", "70 / week from first call"];
    let policy = policy(&limits);
    let mut random = Random::new(7);
    let mut permits: Vec<(&str, u64, [Booking; 2])> = Vec::new();
    for step in 0..1_500 {
        let kind = random.below(6);
        let corrected = permits.get(random.below(1_000) as usize % permits.len().max(1)).filter(|_| kind < 3);
        let (subject, cost, bookings) = corrected.copied().unwrap_or((
            *random.pick(&["a", "b", "c"]),
            random.between(1, 4),
            [NO_BOOKING; 2],
        ));
        let actual = [policy.cost([("requests", random.below(7))]).unwrap()];
        let id = CallId::new(&random.below(40).to_string()).unwrap();
        let terms = Terms { max_wait: Span::ZERO, ..terms(Some(&id).filter(|_| cost == 4)) };
        let verb = |booking: Booking| match kind {
            0 if corrected.is_some() => Verb::Settle { booking, actual: &actual, remember: true },
            1 | 2 if corrected.is_some() => Verb::Return { booking, remember: true },
            3 => Verb::Preview(terms),
            _ => Verb::Take(terms),
        };
        let stores: [&dyn Store; 2] = [&store, &plain];
        let [ours, theirs] = stores.map(|store| of(store, &policy, subject).costing(cost));
        let outcomes = [ours.apply(verb(bookings[0])).unwrap(), theirs.apply(verb(bookings[1])).unwrap()];
        assert_eq!(shape(&outcomes[0]), shape(&outcomes[1]), "step {step}: {:?}", verb(bookings[0]));
        assert_eq!(ours.used(), theirs.used(), "step {step}: {:?}", verb(bookings[0]));
        if let (Verb::Take(_), [Some(mine), Some(its)]) = (verb(NO_BOOKING), outcomes.each_ref().map(granted))
        {
            permits.push((subject, cost, [mine, its]));
        }
    }
    assert!(permits.len() > 100, "enough was granted to be corrected: {}", permits.len());
}

const NO_BOOKING: Booking = Booking {
    permit: PermitId(0),
    granted_at: Timestamp::EPOCH,
    at: Timestamp::EPOCH,
    good_until: Timestamp::EPOCH,
};

fn granted(outcome: &Outcome) -> Option<Booking> {
    match outcome {
        Outcome::Decided(Decision::Granted(grant)) => Some(grant.booking()),
        _ => None,
    }
}

/// An outcome without its times.
fn shape(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decided(Decision::Granted(grant)) => {
            let used: Vec<u64> = grant.readings.iter().map(|reading| reading.used).collect();
            format!("granted {} repeated {} over {} {used:?}", grant.permit, grant.repeated, grant.over)
        }
        Outcome::Decided(Decision::Denied(denial)) => format!("denied by {}", denial.limit),
        other => format!("{other:?}"),
    }
}
