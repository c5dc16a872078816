//! Many processes that share a subject and never take at the same moment: each take costs about one read and one write.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::{count, fresh_table, policy, server, store, subject, take, try_take, used};
use tollway_core::{Fault, Policy};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::faults::{AwsFront, Treatment};
use tollway_testkit::servers::DynamoServer;

const PROCESSES: u64 = 32;
const ROUNDS: u64 = 7;

/// Writes and reads of all stores so far.
fn requests(stores: &[DynamoStore]) -> (u64, u64) {
    let sum = |of: fn(&DynamoStore) -> u64| stores.iter().map(of).sum();
    (sum(|store| count(&store.counters().writes)), sum(|store| count(&store.counters().reads)))
}

fn at_most_a_fifth_more(requests: u64, takes: u64) -> bool {
    requests * 10 <= takes * 12
}

#[test]
fn processes_in_turn_do_not_pay_for_each_other() {
    let table = fresh_table();
    let stores: Vec<DynamoStore> = (0..PROCESSES).map(|_| store(&table)).collect();
    let policy = policy("1000 requests / day");
    for _ in 0..ROUNDS {
        stores.iter().for_each(|store| assert!(try_take(store, &policy, &subject("s"))));
    }
    let takes = PROCESSES * ROUNDS;
    let (writes, reads) = requests(&stores);
    assert!(at_most_a_fifth_more(writes, takes), "{writes} writes for {takes} takes");
    assert!(at_most_a_fifth_more(reads, takes), "{reads} reads for {takes} takes");
    assert_eq!(used(&stores[0], &policy, &subject("s")), takes);
}

/// The account that all processes share is not the one whose item lists its writers.
#[test]
fn processes_in_turn_on_two_accounts_do_not_pay_for_each_other() {
    let table = fresh_table();
    let stores: Vec<DynamoStore> = (0..8).map(|_| store(&table)).collect();
    let own = |number: usize| Policy::new(&format!("a{number}"), ["1000 / day"]).unwrap();
    let shared = Policy::new("z", ["1000 / day"]).unwrap();
    for _ in 0..ROUNDS {
        for (number, store) in stores.iter().enumerate() {
            assert!(take(store, &[&own(number), &shared], &subject("s")).unwrap().is_some());
        }
    }
    let takes = 8 * ROUNDS;
    let (writes, reads) = requests(&stores);
    assert!(at_most_a_fifth_more(writes, takes), "{writes} writes for {takes} takes");
    // Each process reads its own account once.
    assert!(at_most_a_fifth_more(reads - 8, takes), "{reads} reads for {takes} takes");
    assert_eq!(used(&stores[0], &shared, &subject("s")), takes);
}

/// Other processes that have stopped writing cost a few reads, not one for each take.
#[test]
fn a_process_left_alone_stops_reading() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    let policy = policy("1000 requests / day");
    for _ in 0..4 {
        assert!(try_take(&one, &policy, &subject("s")) && try_take(&other, &policy, &subject("s")));
    }
    (0..100).for_each(|_| assert!(try_take(&one, &policy, &subject("s"))));
    let before = count(&one.counters().reads);
    (0..20).for_each(|_| assert!(try_take(&one, &policy, &subject("s"))));
    assert_eq!(count(&one.counters().reads), before);
    assert_eq!(used(&one, &policy, &subject("s")), 128);
}

/// C7: the table works, so its failure mode applies to this take only, and the breaker does not count it.
#[test]
fn a_take_that_loses_every_race_is_contention() {
    let front = AwsFront::to(server().addr());
    let url = format!("{}&deadline=2s", DynamoServer::url_through(front.addr(), &fresh_table()));
    let (store, policy) = (DynamoStore::connect(&url).unwrap(), policy("1000 requests / day"));
    assert!(try_take(&store, &policy, &subject("s")));
    front.always("PutItem", Treatment::Conflict);
    let error = take(&store, &[&policy], &subject("s")).unwrap_err();
    assert_eq!(error.fault, Fault::Account, "{error}");
    assert!(error.message.contains("others were faster"), "{error}");
}
