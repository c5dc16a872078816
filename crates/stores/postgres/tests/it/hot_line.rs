//! Many callers on few accounts: exactly the limit is granted, without deadlocks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support;
use crate::support::{fresh_schema, policy, server, store, subject, take, try_take, used};
use tollway_core::{Policy, Subject};
use tollway_postgres::PostgresStore;

const CALLERS: u64 = 32;

#[test]
fn thirty_two_callers_of_two_processes_never_exceed_one_account() {
    let schema = fresh_schema();
    let stores = [store(&schema), store(&schema)];
    let hot = policy("200 requests / day");
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (store, hot, granted) = (&stores[(caller % 2) as usize], &hot, &granted);
            scope.spawn(move || {
                for _ in 0..10 {
                    granted.fetch_add(u64::from(try_take(store, hot, &Subject::SHARED)), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(granted.into_inner(), 200, "of {} takes", CALLERS * 10);
    assert_eq!(used(&stores[0], &hot, &Subject::SHARED), 200);
}

/// A database may default to stricter isolation. Then a session that waited for a lock would see the accounts as they
/// were before, and be refused when writing them, again and again.
#[test]
fn the_default_isolation_of_the_database_does_not_matter() {
    let schema = fresh_schema();
    for level in ["serializable", "repeatable\\%20read"] {
        let options = format!("options=-c%20default_transaction_isolation%3D{level}");
        let url = format!("{}&{options}", support::url(&schema));
        let stores = [(); 2].map(|()| PostgresStore::connect(&url).unwrap());
        let hot = Policy::new(level.split('\\').next().unwrap(), ["50 requests / day"]).unwrap();
        let granted = AtomicU64::new(0);
        thread::scope(|scope| {
            for caller in 0..16 {
                let (store, hot, granted) = (&stores[caller % 2], &hot, &granted);
                scope.spawn(move || {
                    for _ in 0..8 {
                        granted
                            .fetch_add(u64::from(try_take(store, hot, &Subject::SHARED)), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 50, "{level}");
    }
    assert!(!server().log().contains("could not serialize"), "{}", server().log());
}

/// Takes over the same twelve accounts, named forwards and backwards: a cycle of waiting would end in an error of Postgres.
#[test]
fn crossing_takes_do_not_wait_for_each_other() {
    let schema = fresh_schema();
    let stores = [(); 4].map(|()| store(&schema));
    let names = (0..12).map(|number| format!("p{number}"));
    let policies: Vec<_> = names.map(|name| Policy::new(&name, ["500 requests / day"]).unwrap()).collect();
    let forwards: Vec<&Policy> = policies.iter().collect();
    let backwards: Vec<&Policy> = policies.iter().rev().collect();
    thread::scope(|scope| {
        for store in &stores {
            for named in [&forwards, &backwards] {
                scope.spawn(move || {
                    for _ in 0..40 {
                        assert!(take(store, named, &subject("s")).unwrap().is_some());
                    }
                });
            }
        }
    });
    assert!(policies.iter().all(|policy| used(&stores[0], policy, &subject("s")) == 4 * 2 * 40));
    assert!(!server().log().contains("deadlock"), "{}", server().log());
}
