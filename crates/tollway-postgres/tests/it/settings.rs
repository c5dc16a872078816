//! Limits set at run time: what one process sets, all others read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::{fresh_schema, server, store};
use tollway_core::bounds::SETTINGS_MAX;
use tollway_core::{Fault, Name, Retry, Setting, SettingChange, Settings, Store};
use tollway_postgres::PostgresStore;
use tollway_testkit::wait_for;

fn change(limit: &str, amounts: Option<(u64, Option<u64>)>) -> SettingChange {
    SettingChange { policy: Name::new("größe").unwrap(), limit: Name::new(limit).unwrap(), amounts }
}

fn set(store: &PostgresStore, change: SettingChange) {
    wait_for(Settings::change(store, change)).unwrap();
}

fn read(store: &PostgresStore) -> Vec<(String, u64, Option<u64>)> {
    let settings = wait_for(Store::settings(store).unwrap().settings()).unwrap();
    let brief = |setting: Setting| (setting.limit.as_str().to_owned(), setting.amount, setting.burst);
    settings.into_iter().map(brief).collect()
}

#[test]
fn what_one_process_sets_another_reads() {
    let schema = fresh_schema();
    let (one, other) = (store(&schema), store(&schema));
    assert!(read(&other).is_empty());
    set(&one, change("rpm", Some((5, None))));
    set(&other, change("tpm", Some((900, Some(1_800)))));
    set(&one, change("rpm", Some((7, None))));
    let expected = [("rpm".to_owned(), 7, None), ("tpm".to_owned(), 900, Some(1_800))];
    assert_eq!(read(&one), expected);
    assert_eq!(read(&other), expected);
    set(&other, change("rpm", None));
    assert_eq!(read(&one), expected[1..]);
    let recent = "SELECT abs(set_at / 1000000 - extract(epoch FROM now())) < 3600";
    assert_eq!(server().query(&format!("{recent} FROM {schema}.settings")), "t", "by the server's clock");
}

#[test]
fn the_number_of_settings_is_bounded() {
    let schema = fresh_schema();
    let store = store(&schema);
    assert!(read(&store).is_empty());
    let fill = format!(
        "INSERT INTO {schema}.settings SELECT 'p', 'l' || n, 1, NULL, 0 FROM generate_series(1, {SETTINGS_MAX}) n"
    );
    server().query(&fill);
    let error = wait_for(Settings::change(&store, change("more", Some((1, None))))).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless));
    server().query(&format!("DELETE FROM {schema}.settings WHERE \"limit\" = 'l1'"));
    set(&store, change("more", Some((1, None))));
    assert_eq!(read(&store).len(), SETTINGS_MAX);
}
