//! Findings about consumers that are not limited.

use tollway_consumers::{Amounts, ConsumerId, Draft, Records, Scope, SqliteRecords, Validity, read_date};
use tollway_testkit::servers::RedisServer;

use super::{codes, config, told};
use crate::home::Home;

/// Makes a record in the file that a config names by default.
fn record(home: &Home, consumer: &str, from: &str, to: &str, per_minute: i64) {
    let url = format!("sqlite:{}", home.path().join("tollway.db").display());
    let draft = Draft {
        consumer: ConsumerId::new(consumer).unwrap(),
        scope: Scope::ALL,
        validity: Validity::new(read_date(from).unwrap(), read_date(to).unwrap()).unwrap(),
        amounts: Amounts::new([-1, per_minute, -1, -1, -1, -1]).unwrap(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let records = SqliteRecords::open(&url).unwrap();
    runtime.block_on(records.create(draft)).unwrap();
}

/// The first of the document's common issues: is it switched on?
#[test]
fn finds_consumers_switched_off_or_missing() {
    let store = format!("{}?layout=consumers", RedisServer::shared().url());
    let home = Home::with_config(&format!("[store]\nurl = \"{store}\"\n"));
    assert_eq!(codes(&home, &[]), ["consumers-missing"]);
    home.write("tollway.toml", config(&store, "enabled = false"));
    assert_eq!(codes(&home, &[]), ["consumers-off"]);
    home.write("tollway.toml", config(&store, "per_minute = 100"));
    assert_eq!(codes(&home, &[]), ["(not-on-disk)"]);
    // Who does not ask for consumers need not have them.
    let plain = Home::with_config("[policies.adobe]\nlimits = [\"200 / minute\"]\n");
    assert_eq!(codes(&plain, &[]), Vec::<String>::new());
    assert_eq!(codes(&plain, &["--consumer", "abc"]), ["consumers-missing"]);
}

/// Checks for active records, of any consumer or of one.
#[test]
fn finds_that_no_consumer_has_a_record() {
    let store = format!("{}?layout=consumers", RedisServer::shared().url());
    let home = Home::with_config(&config(&store, ""));
    assert_eq!(codes(&home, &[]), ["no-records", "(not-on-disk)"]);
    assert!(!home.path().join("tollway.db").exists(), "to look makes no file");
    record(&home, "abc", "2020-01-01T00:00:00Z", "2020-12-31T00:00:00Z", 100);
    assert_eq!(codes(&home, &[]), ["no-records", "(not-on-disk)"]);
    let what = told(&home, &["--consumer", "abc"], "no-record", "what");
    assert!(what.contains("2020-01-01T00:00:00Z to 2020-12-31T00:00:00Z"), "{what}");
    record(&home, "abc", "2020-01-01T00:00:00Z", "2099-12-31T00:00:00Z", -1);
    let why = told(&home, &["--consumer", "abc"], "no-record", "why");
    assert!(why.contains("no positive amount"), "{why}");
    record(&home, "abc", "2021-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 100);
    assert_eq!(codes(&home, &[]), ["(not-on-disk)"]);
    assert_eq!(codes(&home, &["--consumer", "abc"]), ["(not-on-disk)"]);
    assert_eq!(codes(&home, &["--consumer", "ben"]), ["no-record", "(not-on-disk)"]);
    // With defaults it is limited all the same.
    home.write("tollway.toml", config(&store, "per_hour = 10"));
    assert_eq!(codes(&home, &["--consumer", "ben"]), ["(no-record)", "(not-on-disk)"]);
}

#[test]
fn notes_a_blocked_consumer() {
    let home = Home::with_config(&config("memory:", "per_minute = 5"));
    record(&home, "abc", "2021-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 100);
    let url = format!("sqlite:{}", home.path().join("tollway.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let block = |blocked| {
        let records = SqliteRecords::open(&url).unwrap();
        runtime.block_on(records.set_blocked(&ConsumerId::new("abc").unwrap(), blocked)).unwrap();
    };
    block(true);
    assert_eq!(codes(&home, &["--consumer", "abc"]), ["(consumer-blocked)", "(store-in-memory)"]);
    block(false);
    assert_eq!(codes(&home, &["--consumer", "abc"]), ["(store-in-memory)"]);
}

#[test]
fn finds_that_requests_cannot_identify_a_consumer() {
    let home = Home::with_config("[consumers]\nper_minute = 5\n[store]\nurl = \"memory:\"\n");
    assert_eq!(codes(&home, &[]), ["nobody-is-named", "(store-in-memory)"]);
    let tokens = "[consumers]\nper_minute = 5\ntokens = { file = \"tokens\" }\n[store]\nurl = \"memory:\"\n";
    home.write("tollway.toml", tokens);
    assert_eq!(codes(&home, &[]), ["tokens-unreadable", "(store-in-memory)"]);
    home.write("tokens", format!("abc {}\n", "0".repeat(64)));
    assert_eq!(codes(&home, &[]), ["(store-in-memory)"]);
}

#[test]
fn finds_unreadable_records() {
    let home = Home::with_config(&config("memory:", "per_minute = 5"));
    home.write("tollway.db", "this is no database, and long enough to be taken for one that is broken");
    assert_eq!(codes(&home, &[]), ["records-unreachable", "(store-in-memory)", "(readable-by-others)"]);
    std::fs::remove_file(home.path().join("tollway.db")).unwrap();
    assert_eq!(codes(&home, &[]), ["(store-in-memory)"]);
}
