//! Items keep their attributes and their bytes: the table after a fixed sequence of operations, and both layouts of
//! minutes.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files. Masked: the writer, drawn at random for each process, and times of the
//! machine's clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tollway_core::{
    Action, Booking, Charge, Operation, Outcome, PermitId, Policy, Span, Store, Subject, Terms, Timestamp,
};
use tollway_dynamodb::minute::{Layout, MinuteStore};
use tollway_dynamodb::{DynamoOptions, DynamoStore};
use tollway_testkit::golden::{START, compare, late_steps, play, set_limits, steps};
use tollway_testkit::servers::DynamoServer;
use tollway_testkit::takes::fresh_name;
use tollway_testkit::{ManualClock, wait_for};

fn golden(name: &str, found: &str) {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name), found);
}

/// A new table whose items stay: by the server's clock they have long expired.
fn new_table(key: &[(&str, &str)]) -> String {
    let table = fresh_name();
    let kinds = ["HASH", "RANGE"];
    let schema: Vec<Value> = key
        .iter()
        .zip(kinds)
        .map(|((name, _), kind)| json!({ "AttributeName": name, "KeyType": kind }))
        .collect();
    let attributes: Vec<Value> =
        key.iter().map(|(name, kind)| json!({ "AttributeName": name, "AttributeType": kind })).collect();
    let request = json!({
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": schema,
        "AttributeDefinitions": attributes,
    });
    DynamoServer::shared().ask("CreateTable", &request);
    table
}

fn url(table: &str) -> String {
    let url = DynamoServer::shared().url(table).replace("create=yes", "create=no");
    format!("{url}&deadline=20s")
}

/// Every item on a line of its own, attributes by name, with what is random masked by `mask`.
fn items(table: &str, mask: impl Fn(&mut BTreeMap<String, Value>)) -> String {
    let mut lines: Vec<String> = DynamoServer::shared()
        .items(table)
        .into_iter()
        .map(|item| {
            let mut item: BTreeMap<String, Value> = serde_json::from_value(item).unwrap();
            mask(&mut item);
            serde_json::to_string(&item).unwrap() + "\n"
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

/// `WRITER SEQUENCE.ATTEMPT MILLISECONDS` without the writer.
fn mask_writers(item: &mut BTreeMap<String, Value>) {
    let Some(writers) = item.get_mut("writers") else { return };
    for record in writers["L"].as_array_mut().unwrap() {
        let (writer, rest) = record["S"].as_str().unwrap().split_once(' ').unwrap();
        assert!(!writer.is_empty());
        record["S"] = format!("WRITER {rest}").into();
    }
}

/// Settings are stamped by the machine's clock, and their item begins with it as its version.
fn mask_settings(item: &mut BTreeMap<String, Value>) {
    mask_writers(item);
    if item["key"]["S"].as_str().is_some_and(|key| key.starts_with("settings")) {
        for value in item.values_mut() {
            *value = masked_digits(&value.to_string()).into();
        }
    }
}

/// Replaces every number of 13 digits and more.
fn masked_digits(text: &str) -> String {
    let mut masked = String::new();
    let mut digits = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        masked += if digits.len() < 13 { &digits } else { "TIME" };
        digits.clear();
        masked.push(character);
    }
    masked.trim_end_matches('\0').to_owned()
}

#[test]
fn items_keep_their_bytes() {
    let (table, clock) = (new_table(&[("key", "S")]), Arc::new(ManualClock::at(START)));
    let store = DynamoStore::with_clock(&url(&table), clock.clone()).unwrap();
    let outcomes = play(&store, &clock, &steps());
    golden("items.txt", &items(&table, mask_writers));
    golden("outcomes.txt", &outcomes);
    let other = DynamoStore::with_clock(&url(&table), clock.clone()).unwrap();
    golden("late_outcomes.txt", &play(&other, &clock, &late_steps()));
}

#[test]
fn settings_keep_their_bytes() {
    let (table, clock) = (new_table(&[("key", "S")]), Arc::new(ManualClock::at(START)));
    let store = DynamoStore::with_clock(&url(&table), clock).unwrap();
    set_limits(&store);
    golden("settings.txt", &items(&table, mask_settings));
}

/// One operation on a minute.
fn ask(store: &MinuteStore, subject: &str, cost: u64, action: Action) -> Outcome {
    let policy = Policy::new("adobe", ["200 requests / minute"]).unwrap();
    let subject = Subject::new(subject).unwrap();
    let cost = policy.cost([("requests", cost)]).unwrap();
    let charge = Charge::new(Arc::new(policy), subject).with_cost(cost);
    wait_for(store.apply(&[Operation::one(charge, action)])).unwrap().remove(0)
}

fn take(store: &MinuteStore, subject: &str, cost: u64, permit: u128) -> Booking {
    match ask(store, subject, cost, Action::Take(Terms::now(PermitId(permit)))) {
        Outcome::Decided(decision) => *decision.booking().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn minutes_keep_their_bytes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _inside = runtime.enter();
    for (layout, name) in [(Layout::Minute, "minute.txt"), (Layout::ApiMinute, "api_minute.txt")] {
        let table = new_table(layout.key());
        let options: DynamoOptions = url(&table).parse().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_739_961_020)));
        let store = MinuteStore::with_clock(&options, layout, clock.clone()).unwrap();
        take(&store, "autotag", 3, 1);
        let returned: Booking = take(&store, "autotag", 4, 2);
        ask(&store, "autotag", 4, Action::Return { booking: returned, remember: false });
        take(&store, "extract", 5, 3);
        clock.advance(Span::from_mins(1));
        take(&store, "extract", 6, 4);
        golden(name, &items(&table, mask_marks));
    }
}

/// `writer_SLOT: {by, number, at}`: the slot and `by` are random.
fn mask_marks(item: &mut BTreeMap<String, Value>) {
    let marks: Vec<String> = item.keys().filter(|name| name.starts_with("writer_")).cloned().collect();
    for name in marks {
        let mut mark = item.remove(&name).unwrap();
        assert!(!mark["M"]["by"]["S"].as_str().unwrap().is_empty());
        mark["M"]["by"]["S"] = "WRITER".into();
        item.insert("writer_SLOT".to_owned(), mark);
    }
}
