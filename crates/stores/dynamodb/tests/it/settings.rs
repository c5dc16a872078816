//! Limits set at run time: what one process sets, all others read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::thread;

use crate::support;
use crate::support::{fresh_table, store};
use tollway_core::bounds::SETTINGS_MAX;
use tollway_core::{Fault, Retry, Settings};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::settings::{are_shared, change, read, set};
use tollway_testkit::wait_for;

#[test]
fn what_one_process_sets_another_reads() {
    let table = fresh_table();
    let (one, other) = (store(&table), store(&table));
    are_shared(&one, &other);
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let table = fresh_table();
    let stores = [(); 4].map(|()| store(&table));
    thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                (0..3).for_each(|limit| set(store, change(&format!("l{number}-{limit}"), Some((1, None)))))
            });
        }
    });
    assert_eq!(read(&stores[0]).len(), 12);
}

#[test]
fn the_number_of_settings_is_bounded() {
    let table = fresh_table();
    let store = store(&table);
    set(&store, change("l0", Some((1, None))));
    let mut item = support::server().only_item(&table);
    let one = item["settings"]["S"].as_str().unwrap().trim_matches(['[', ']']).to_owned();
    let named = |number: usize| one.replace("\"l0\"", &format!("\"l{number}\""));
    let all: Vec<String> = (0..SETTINGS_MAX).map(named).collect();
    item["settings"]["S"] = format!("[{}]", all.join(",")).into();
    support::server().put(&table, &item);
    let error = wait_for(Settings::change(&store, change("more", Some((1, None))))).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless));
    set(&store, change("l1", None));
    set(&store, change("more", Some((1, None))));
    assert_eq!(read(&store).len(), SETTINGS_MAX);
}

/// A reading that registers is one write in place of a read.
#[test]
fn limiters_are_counted_in_the_item_of_the_settings() {
    let table = fresh_table();
    let stores = [store(&table), store(&table), store(&table)];
    let follow = |store: &DynamoStore, registers| {
        let followed = wait_for(Settings::follow(store, registers)).unwrap();
        followed.limiters.map(std::num::NonZeroU32::get)
    };
    assert_eq!(follow(&stores[0], false), Some(1), "one that only looks counts itself");
    for (store, limiters) in stores.iter().zip(1..) {
        assert_eq!(follow(store, true), Some(limiters));
    }
    assert!(read(&stores[0]).is_empty());
    set(&stores[1], change("requests", Some((250, None))));
    assert_eq!(read(&stores[2]).len(), 1);
    assert!(stores.iter().all(|store| follow(store, true) == Some(3)), "a change keeps the counters");
}
