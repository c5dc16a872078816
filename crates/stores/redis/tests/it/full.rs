//! A Redis without room for new keys: accounts that exist are updated, new subjects share, and no caller is unlimited.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::asking::{Asked, SIX, charge, number, of, policy};
use tollway_core::{
    Action, Booking, Decision, Fault, NewAccounts, Operation, Outcome, PermitId, Policy, Retry, Settled,
    Span, Store, Terms,
};
use tollway_redis::{Address, RedisLink, RedisStore};
use tollway_remote::{Call, Link, Tag};
use tollway_testkit::servers::{RedisCluster, RedisServer};
use tollway_testkit::wait_for;

fn store(server: &RedisServer, layout: &str) -> RedisStore {
    RedisStore::open(&format!("{}/0?layout={layout}&deadline=20s", server.url())).unwrap()
}

/// From now on there is no room.
fn fill(server: &RedisServer) {
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1mb"]), "OK");
}

fn make_room(server: &RedisServer) {
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
}

/// Without the one that says until when subjects share accounts.
fn keys(server: &RedisServer) -> i64 {
    number(server, &["DBSIZE"]) - number(server, &["EXISTS", NOTICE])
}

/// Where processes note until when subjects share accounts.
const NOTICE: &str = "tollway:1:{o}";

/// Callers do not wait: in the last minutes of an hour they would be granted calls of the next.
fn an_hour(amount: u64) -> Policy {
    policy(&[&format!("{amount} / hour")]).with_max_wait(Span::ZERO).unwrap()
}

fn five_an_hour(layout: &str) -> Policy {
    if layout == "lines" { an_hour(5) } else { policy(&["5 / hour from first call"]) }
}

fn is_granted(asked: &Asked<'_>) -> bool {
    asked.decide(None).is_granted()
}

/// C7: a caller with an account is held to its limit in a full server, however many new ones come.
#[test]
fn known_subjects_keep_their_limits_in_a_full_server() {
    for layout in ["lines", "consumers"] {
        let server = RedisServer::start();
        let (store, policy) = (store(&server, layout), five_an_hour(layout));
        let known = of(&store, &policy, "known");
        assert!(is_granted(&known) && is_granted(&known));
        fill(&server);
        let granted = (0..10).filter(|_| is_granted(&known)).count();
        assert_eq!(granted, 3, "{layout}: two were taken before");
        let before = keys(&server);
        let granted = (0..3_000).filter(|id| is_granted(&of(&store, &policy, &format!("new {id}")))).count();
        assert!((1_000..=3_000).contains(&granted), "{layout}: {granted} of the new ones");
        let made = keys(&server) - before;
        assert!(made <= 1_024, "{layout}: {made} keys");
        assert!(!is_granted(&known), "{layout}");
    }
}

/// The shared accounts are bounded, and so is what all subjects together are granted by them.
#[test]
fn new_subjects_share_accounts_in_a_full_server() {
    for layout in ["lines", "consumers"] {
        let server = RedisServer::start();
        let (store, policy) = (store(&server, layout), five_an_hour(layout));
        of(&store, &policy, "known").take();
        fill(&server);
        let new = of(&store, &policy, "new");
        assert_eq!((0..10).filter(|_| is_granted(&new)).count(), 5, "{layout}");
        // The number of a shared account is the same in every process.
        let other_process = self::store(&server, layout);
        assert!(!is_granted(&of(&other_process, &policy, "new")), "{layout}");
        // Reads and corrections find the account that was charged.
        assert_eq!(new.used(), [5], "{layout}");
        // With room again, the subject does not get a second limit.
        make_room(&server);
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        assert!(!is_granted(&new), "{layout}");
        assert!(is_granted(&of(&store, &policy, "another")), "{layout}");
        assert_eq!(
            number(
                &server,
                &["EXISTS", if layout == "lines" { "tollway:1:{s:new}:consumers" } else { "new_PER_HOUR" }]
            ),
            0
        );
    }
}

/// A consumer's counters end at different times: those that begin meanwhile are shared.
#[test]
fn all_periods_hold_in_a_full_server() {
    let server = RedisServer::start();
    let (store, policy) = (store(&server, "consumers"), policy(&SIX));
    let known = of(&store, &policy, "known");
    known.take();
    fill(&server);
    server.command(&["DEL", "known_PER_MINUTE"]);
    for _ in 0..5 {
        known.take();
    }
    assert_eq!(number(&server, &["GET", "known_PER_DAY"]), 6);
    assert_eq!(known.used()[1], 5);
}

/// C7: a process that starts after the flood is told that subjects share: what was counted there still counts.
#[test]
fn a_process_that_starts_after_a_flood_knows_who_shares() {
    for layout in ["lines", "consumers"] {
        let server = RedisServer::start();
        let (first, policy) = (store(&server, layout), five_an_hour(layout));
        of(&first, &policy, "known").take();
        fill(&server);
        let shares = of(&first, &policy, "new");
        assert_eq!((0..8).filter(|_| is_granted(&shares)).count(), 5, "{layout}");
        while number(&server, &["EXISTS", NOTICE]) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(number(&server, &["PTTL", NOTICE]) > 3_600_000, "{layout}");
        make_room(&server);
        drop(first);
        let second = store(&server, layout);
        let before = keys(&server);
        for round in 0..3 {
            assert!(!is_granted(&of(&second, &policy, "new")), "{layout}: {round}");
        }
        assert_eq!(keys(&server), before, "{layout}: no account of its own");
        assert!(is_granted(&of(&second, &policy, "known")), "{layout}");
        assert!(is_granted(&of(&second, &policy, "another")), "{layout}: there is room");
    }
}

/// A grant that is given back in a full server counts as unused, and no answer leaves a key.
#[test]
fn refunds_count_once_in_a_full_server() {
    let server = RedisServer::start();
    let (store, policy) = (store(&server, "lines"), policy(&["5 / day bucket"]));
    let known = of(&store, &policy, "known");
    let booking = *known.take().booking().unwrap();
    known.take();
    fill(&server);
    assert_eq!(known.give_back(booking, false), Settled::Whole);
    assert_eq!(known.used(), [1]);
    // One that could come twice cannot be remembered, and stays spent.
    let booking = *known.take().booking().unwrap();
    assert_eq!(known.give_back(booking, true), Settled::Dropped);
    assert_eq!(known.used(), [2]);
    assert!(!server.command(&["KEYS", "*"]).contains("{o:"));
}

/// A correction whose answer was lost may have been applied: it is not applied again. A take is, and counts twice.
#[tokio::test]
async fn lost_answers_count_as_spent_in_a_full_server() {
    let server = RedisServer::start();
    let address = Address::parse(&format!("{}?deadline=20s", server.url())).unwrap();
    let link = Arc::new(RedisLink::new(&address).unwrap());
    let (policy, now) = (policy(&["5 / day bucket"]), tollway_core::Timestamp::from_secs(0));
    let send = async |sequence: u64, again: bool, action: Action| {
        let operations: Arc<[_]> = [Operation::one(charge(&policy, "known"), action)].into();
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence, again, operations };
        link.clone().send(vec![Arc::new(call)]).await.remove(0)
    };
    let used = async |sequence| match send(sequence, false, Action::Peek).await.unwrap().remove(0) {
        Outcome::Peeked(charges) => charges[0].readings[0].used,
        other => panic!("{other:?}"),
    };
    let permit = PermitId(1);
    for sequence in 1..4 {
        send(sequence, false, Action::Take(Terms::now(PermitId(sequence.into())))).await.unwrap();
    }
    // Without the answer of the process, as after a minute.
    let Some(answer) = server.command(&["KEYS", "*:answers:*"]).lines().next().map(str::to_owned) else {
        panic!()
    };
    server.command(&["DEL", &answer]);
    fill(&server);
    let booking = Booking { permit, granted_at: now, at: now, good_until: tollway_core::Timestamp::MAX };
    let give_back = || Action::Return { booking, remember: false };
    let before = used(4).await;
    send(5, false, Action::Take(Terms::now(permit))).await.unwrap();
    send(5, true, Action::Take(Terms::now(permit))).await.unwrap();
    assert_eq!(used(6).await, before + 2);
    let error = send(7, true, give_back()).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Account, Retry::Useless), "{error}");
    // Also while it is no longer certain whether the server was full when it was sent first.
    make_room(&server);
    assert!(send(7, true, give_back()).await.is_err());
    assert_eq!(used(8).await, before + 2);
}

fn decide_as(store: &dyn Store, policy: &Policy, subjects: &[&str], new_accounts: NewAccounts) -> Decision {
    static PERMITS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 40);
    let permit = PermitId(PERMITS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
    let terms = Terms { new_accounts, ..Terms::now(permit) };
    let charges = subjects.iter().map(|subject| charge(policy, subject)).collect();
    match wait_for(store.apply(&[Operation { charges, action: Action::Take(terms) }])).unwrap().remove(0) {
        Outcome::Decided(decision) => decision,
        other => panic!("{other:?}"),
    }
}

/// The same where a listener lets subjects share, on a server older than 7.0 that has room.
#[test]
fn a_process_that_starts_later_on_an_old_server_knows_who_shares() {
    let server = RedisServer::start_6_2();
    let (first, policy) = (store(&server, "lines"), an_hour(1));
    assert!(decide_as(&first, &policy, &["new"], NewAccounts::Share).is_granted());
    while number(&server, &["EXISTS", NOTICE]) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(first);
    assert!(!is_granted(&of(&store(&server, "lines"), &policy, "new")));
}

/// Callers can name limits of their own: the accounts that their subjects share are bounded, too.
#[test]
fn shared_accounts_of_many_policies_are_bounded() {
    let server = RedisServer::start();
    let store = store(&server, "lines");
    let of_policy = |number: usize| {
        Policy::new(&format!("chosen-{number}"), ["5 / hour"]).unwrap().with_max_wait(Span::ZERO).unwrap()
    };
    of(&store, &of_policy(299), "known").take();
    fill(&server);
    let before = keys(&server);
    for number in 0..299 {
        let policy = of_policy(number);
        let taken = of(&store, &policy, "new").apply(Action::Take(Terms::now(PermitId(1))));
        assert_eq!(
            taken.map_or_else(|error| Some(error.fault), |_| None),
            (number >= 256).then_some(Fault::Full)
        );
    }
    assert_eq!(keys(&server) - before, 256);
    of(&store, &of_policy(299), "known").take();
}

/// The answer says how many accounts were made, and a take that may make none shares one.
#[test]
fn answers_say_how_many_accounts_were_made() {
    for layout in ["lines", "consumers"] {
        let server = RedisServer::start();
        let (store, policy) = (store(&server, layout), five_an_hour(layout));
        let made = |subjects: &[&str]| {
            let decision = decide_as(&store, &policy, subjects, NewAccounts::MakeAndCount);
            assert!(decision.is_granted());
            decision.accounts_made
        };
        assert_eq!((made(&["a"]), made(&["a"]), made(&["b"])), (1, 0, 1), "{layout}");
        assert_eq!((made(&["b", "c", "d"]), made(&["c", "d"])), (2, 0), "{layout}");
        let shared = |subject: &str| decide_as(&store, &policy, &[subject], NewAccounts::Share);
        let before = keys(&server);
        assert!(shared("a").is_granted());
        assert_eq!(keys(&server), before, "{layout}: it has an account");
        assert!((0..5).all(|_| shared("e").is_granted()) && !shared("e").is_granted(), "{layout}");
        // A take that may make an account does not give it a second limit.
        assert_eq!(made(&["f"]), 1, "{layout}");
        assert!(!decide_as(&store, &policy, &["e"], NewAccounts::MakeAndCount).is_granted(), "{layout}");
    }
}

/// Several takes of a new subject that come together make one account.
#[test]
fn equal_takes_make_one_account() {
    for layout in ["lines", "consumers"] {
        let server = RedisServer::start();
        let (store, policy) = (store(&server, layout), five_an_hour(layout));
        let take = |permit| {
            let terms = Terms { new_accounts: NewAccounts::MakeAndCount, ..Terms::now(PermitId(permit)) };
            Operation::one(charge(&policy, "new"), Action::Take(terms))
        };
        for first in [1, 4] {
            let outcomes = wait_for(store.apply(&(first..first + 3).map(take).collect::<Vec<_>>())).unwrap();
            let made = outcomes.iter().map(|outcome| match outcome {
                Outcome::Decided(decision) => decision.accounts_made,
                other => panic!("{other:?}"),
            });
            assert_eq!(made.sum::<u16>(), u16::from(first == 1), "{layout}");
        }
    }
}

/// G7: a server that cannot save is not away: it still denies, and its errors say that it is full.
#[test]
fn a_server_that_cannot_save_still_denies() {
    let server = RedisServer::start_with(&["--enable-protected-configs", "yes", "--save", "3600 1000000"]);
    let (store, policy) = (store(&server, "lines"), an_hour(1));
    let known = of(&store, &policy, "known");
    known.take();
    assert_eq!(server.command(&["CONFIG", "SET", "dir", "/proc"]), "OK");
    server.command(&["BGSAVE"]);
    while !server.command(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:err") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!is_granted(&known));
    let error = of(&store, &policy, "new").apply(Action::Take(Terms::now(PermitId(1)))).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Full, Retry::Useless), "{error}");
    assert!(error.message.contains("MISCONF"), "{error}");
}

/// A server older than 7.0 runs no script while it is full: a grant fails, and a denial is still one.
#[test]
fn a_full_old_server_refuses_grants() {
    let server = RedisServer::start_6_2();
    let (store, policy) = (store(&server, "lines"), an_hour(1));
    let known = of(&store, &policy, "known");
    known.take();
    fill(&server);
    for _ in 0..2 {
        assert!(!is_granted(&known));
        let error = of(&store, &policy, "new").apply(Action::Take(Terms::now(PermitId(1)))).unwrap_err();
        assert!(error.message.contains("OOM"), "{error}");
    }
    make_room(&server);
    assert!(is_granted(&of(&store, &policy, "new")));
}

/// On a Cluster each slot has its shared account, so that a take is still one step.
#[test]
fn new_subjects_share_accounts_in_a_full_cluster() {
    let cluster = RedisCluster::start(3);
    let hosts: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let store = RedisStore::open(&format!("redis+cluster://{}?deadline=20s", hosts.join(","))).unwrap();
    let policy = an_hour(5);
    let known: Vec<_> = (0..20).map(|id| of(&store, &policy, &format!("known {id}"))).collect();
    known.iter().for_each(|known| assert!(is_granted(known)));
    cluster.nodes().iter().for_each(fill);
    for known in &known {
        assert_eq!((0..8).filter(|_| is_granted(known)).count(), 4);
    }
    let new = of(&store, &policy, "new");
    assert_eq!((0..8).filter(|_| is_granted(&new)).count(), 5);
}
