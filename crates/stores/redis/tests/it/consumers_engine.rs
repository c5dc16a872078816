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

use crate::asking::{SIX, charge, minute, number, of, open, outlive, policy, terms};
use tollway_core::{
    Action, Begun, Booking, CallId, Operation, Outcome, Period, PermitId, Refusal, Settled, Span, Store,
    Subject, TakeOutcome, Terms, Timestamp,
};
use tollway_redis::{RedisStore, counter_key};
use tollway_testkit::faults::{Fault as Toxic, FaultProxy};
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, PlainStore, Random, wait_for};

/// I3: one limit without room keeps all others from counting, at any position.
#[test]
fn six_limits_are_all_charged_or_none() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), policy(&SIX));
    for (index, period) in Period::ALL.into_iter().enumerate() {
        let subject = format!("together-{period}");
        let key = counter_key(period, &Subject::new(&subject).unwrap());
        let full = policy.limits()[index].amount().to_string();
        // Longer than a second, so that the window of a second does not end during the test.
        server.command(&["SET", &key, &full, "EX", "3600"]);
        let denial = of(&store, &policy, &subject).denied();
        assert_eq!((denial.charge, denial.limit), (0, index), "{period}");
        assert_eq!(server.command(&["KEYS", &format!("{subject}_*")]), key);
    }
    let readings = &of(&store, &policy, "together").take().charges[0].readings;
    assert_eq!(readings.iter().map(|reading| reading.used).collect::<Vec<_>>(), [1; 6]);
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
    let foreseen = consumer.apply(Action::Preview(terms(None))).unwrap();
    assert!(
        matches!(&foreseen, Outcome::Decided(decision) if decision.is_granted() && decision.charges[0].readings[0].used == 2)
    );
    assert_eq!(consumer.used(), [1]);
    let id = CallId::new("foreseen").unwrap();
    consumer.apply(Action::Preview(terms(Some(id)))).unwrap();
    assert_eq!(changes(), before);
    consumer.take();
    let before = changes();
    consumer.denied();
    assert!(!consumer.decide(Some("id")).is_granted());
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
            scope.spawn(move || (0..50).filter(|_| consumer.decide(None).is_granted()).count())
        };
        let threads: Vec<_> = (0..8).map(hammer).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(granted, 200);
    assert_eq!(server.command(&["MGET", "race_PER_HOUR", "race_PER_DAY"]), "200\n200");
}

/// Operations of one call are applied in order: windows begin, end by a reset and begin again in it.
#[test]
fn operations_of_one_call_see_each_other() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    server.command(&["SETEX", "c_PER_MINUTE", "30", "3"]);
    let take = || Action::Take(terms(None));
    let preview = || Action::Preview(terms(None));
    let actions = [
        take(),
        preview(),
        Action::Peek,
        take(),
        take(),
        Action::Reset,
        preview(),
        Action::Peek,
        take(),
        preview(),
        Action::Peek,
    ];
    let batch = actions.map(|action| Operation::one(charge(&policy, "c"), action));
    let used = |outcome: &Outcome| match outcome {
        Outcome::Decided(decision) if decision.is_granted() => Some(decision.charges[0].readings[0].used),
        Outcome::Peeked(charges) => Some(charges[0].readings[0].used),
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
    let [first, again] = [consumer.decide(Some("a")), consumer.decide(Some("a"))];
    assert!(first.is_granted() && again.is_granted());
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.booking(), again.booking());
    assert_eq!(consumer.used(), [1]);
    let dearer = of(&store, &policy, "c").costing(2);
    let id = CallId::new("a").unwrap();
    let refused = dearer.apply(Action::Take(terms(Some(id)))).unwrap();
    assert_eq!(refused, Outcome::Refused(Refusal::IdReused("a".to_owned())));
    assert_eq!(consumer.give_back(*first.booking().unwrap(), false), Settled::Whole);
    let retaken = consumer.decide(Some("a"));
    assert!(retaken.is_granted() && !retaken.repeated);
    assert_eq!(consumer.used(), [1]);
    // A reset makes counters new, not calls.
    assert_eq!(consumer.apply(Action::Reset).unwrap(), Outcome::Reset);
    let known = consumer.decide(Some("a"));
    assert!(known.is_granted() && known.repeated);
    let other = policy.with_limits(policy.limits().to_vec()).unwrap();
    let known = of(&store, &other, "d").decide(Some("a"));
    assert!(known.is_granted() && !known.repeated);
}

/// No more than 1,024 ids are remembered: one more is refused, not forgotten.
#[test]
fn ids_are_bounded() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5_000));
    let take = |id: u32| {
        let id = CallId::new(&id.to_string()).unwrap();
        Operation::one(charge(&policy, "c"), Action::Take(terms(Some(id))))
    };
    let takes: Vec<_> = (0..1_024).map(take).collect();
    wait_for(store.apply(&takes)).unwrap();
    let consumer = of(&store, &policy, "c");
    let more = CallId::new("more").unwrap();
    let refused = consumer.apply(Action::Take(terms(Some(more)))).unwrap();
    assert_eq!(refused, Outcome::Refused(Refusal::TooManyIds));
    let known = consumer.decide(Some("7"));
    assert!(known.is_granted() && known.repeated);
    assert_eq!(consumer.used(), [1_024]);
}

/// I5: the server applied the call and its answer was lost. It is resent and counts once.
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
fn corrections_stay_in_their_window() {
    let server = RedisServer::start();
    let (store, policy) =
        (open(&server), policy(&["5 / minute from first call", "9 / hour from first call"]));
    let consumer = of(&store, &policy, "c").costing(2);
    let taken = [consumer.take(), consumer.take(), of(&store, &policy, "c").take()];
    let [returned, dearer, late] = taken.map(|decision| *decision.booking().unwrap());
    assert_eq!(consumer.give_back(returned, true), Settled::Whole);
    assert_eq!(consumer.give_back(returned, true), Settled::Repeated);
    assert_eq!(consumer.settle(dearer, 7), Settled::Whole);
    assert_eq!(consumer.used(), [8, 8]);
    // The minute ends, the hour runs on.
    server.command(&["PEXPIRE", "c_PER_MINUTE", "1"]);
    outlive(&server, "c_PER_MINUTE");
    of(&store, &policy, "c").take();
    assert_eq!(consumer.used(), [1, 9]);
    assert_eq!(of(&store, &policy, "c").give_back(late, false), Settled::Partly);
    assert_eq!(consumer.used(), [1, 8]);
    // Never below nothing, whatever others made of it.
    let last = of(&store, &policy, "c").take();
    server.command(&["SET", "c_PER_MINUTE", "0", "KEEPTTL"]);
    assert_eq!(of(&store, &policy, "c").give_back(*last.booking().unwrap(), false), Settled::Whole);
    assert_eq!(consumer.used(), [0, 8]);
}

/// `begin` is free while the permit's window runs; too late, it takes again, once.
#[test]
fn begin_takes_again_once_when_it_is_too_late() {
    let server = RedisServer::start();
    let (store, policy) = (open(&server), minute(5));
    let consumer = of(&store, &policy, "c");
    let booking = *consumer.take().booking().unwrap();
    assert_eq!(consumer.apply(Action::Begin(booking, terms(None))).unwrap(), Outcome::Begun(Begun::Now));
    let late = Booking { good_until: booking.at, ..booking };
    for repeated in [false, true, true] {
        let begun = consumer.apply(Action::Begin(late, terms(None))).unwrap();
        let Outcome::Begun(Begun::Again(decision)) = begun else { panic!("{begun:?}") };
        assert_eq!((decision.is_granted(), decision.repeated), (true, repeated));
    }
    assert_eq!(consumer.used(), [2]);
    assert_eq!(consumer.apply(Action::Done(booking.permit)).unwrap(), Outcome::Done(false));
    assert_eq!(consumer.apply(Action::Renew(booking.permit)).unwrap(), Outcome::Renewed(true));
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
        let terms = Terms { max_wait: Span::ZERO, ..terms(Some(id).filter(|_| cost == 4)) };
        let action = |booking: Booking| match kind {
            0 if corrected.is_some() => {
                Action::Settle { booking, actual: actual.clone().into(), remember: true }
            }
            1 | 2 if corrected.is_some() => Action::Return { booking, remember: true },
            3 => Action::Preview(terms.clone()),
            _ => Action::Take(terms.clone()),
        };
        let stores: [&dyn Store; 2] = [&store, &plain];
        let [ours, theirs] = stores.map(|store| of(store, &policy, subject).costing(cost));
        let outcomes = [ours.apply(action(bookings[0])).unwrap(), theirs.apply(action(bookings[1])).unwrap()];
        assert_eq!(shape(&outcomes[0]), shape(&outcomes[1]), "step {step}: {:?}", action(bookings[0]));
        assert_eq!(ours.used(), theirs.used(), "step {step}: {:?}", action(bookings[0]));
        if let (Action::Take(_), [Some(mine), Some(its)]) =
            (action(NO_BOOKING), outcomes.each_ref().map(granted))
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
        Outcome::Decided(decision) => decision.booking().copied(),
        _ => None,
    }
}

/// An outcome without its times.
fn shape(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decided(decision) => match decision.outcome {
            TakeOutcome::Granted(booking) => {
                let readings = decision.charges.iter().flat_map(|charge| &charge.readings);
                let used: Vec<u64> = readings.map(|reading| reading.used).collect();
                let (repeated, over) = (decision.repeated, decision.over);
                format!("granted {} repeated {repeated} over {over} {used:?}", booking.permit)
            }
            TakeOutcome::Denied(denial) => format!("denied by {}", denial.limit),
        },
        other => format!("{other:?}"),
    }
}
