//! Limits set at run time: what one process sets, all others read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::{fresh_schema, server, store};
use tollway_core::bounds::SETTINGS_MAX;
use tollway_core::{Fault, Retry, Settings};
use tollway_testkit::settings::{are_shared, change, read, set};
use tollway_testkit::wait_for;

#[test]
fn what_one_process_sets_another_reads() {
    let schema = fresh_schema();
    let (one, other) = (store(&schema), store(&schema));
    are_shared(&one, &other);
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

#[test]
fn accounts_are_listed() {
    tollway_testkit::account_list::are_listed(&store(&fresh_schema()));
}
