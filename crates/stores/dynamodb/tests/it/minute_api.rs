//! The layout `api-minute` (P10): one budget for each `api_type`, with tasks in Python that count in the same table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::minute_table::{NOW, Table, ask, granted, policy, take_all};
use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::Action;
use tollway_dynamodb::minute::Layout;
use tollway_testkit::ManualClock;

/// What a worker in Python does: one conditional update for each token of its `api_type`, until there is none.
const PYTHON: &str = r#"
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
import boto3

most, now = int(sys.argv[1]), int(sys.argv[2])
table = boto3.resource('dynamodb').Table(os.environ['RATE_LIMIT_TABLE'])

def acquire(api_type):
    try:
        table.update_item(
            Key={'api_type': api_type, 'minute': int(now / 60)},
            UpdateExpression='SET request_count = if_not_exists(request_count, :zero) + :inc',
            ConditionExpression='attribute_not_exists(request_count) OR request_count < :max',
            ExpressionAttributeValues={':zero': 0, ':inc': 1, ':max': most},
            ReturnValues='UPDATED_NEW')
        return True
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        return False

def task(_):
    count = 0
    while acquire('autotag'):
        count += 1
        time.sleep(0.01)  # what the token is for
    return count

print('ready', flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(task, range(4))), flush=True)
"#;

/// P10: exactly 200 for one `api_type`; another has its own.
#[test]
fn a_budget_of_an_api_type_is_shared_with_python_to_the_last_token() {
    let table = Table::new(Layout::ApiMinute);
    let policy = policy("200 requests / minute");
    let mut python = table.python(PYTHON, 200, NOW);
    python.go();
    while table.items().is_empty() {
        std::thread::yield_now();
    }
    let store = Arc::new(table.store(Arc::new(ManualClock::at(NOW))));
    let ours = table.runtime.block_on(take_all(Arc::clone(&store), policy.clone(), "autotag", 16));
    let theirs = python.granted();
    assert_eq!(ours + theirs, 200, "{ours} of ours and {theirs} of theirs");
    assert!(ours > 0 && theirs > 0, "{ours} of ours and {theirs} of theirs");
    assert_eq!(table.count(), 200);
    table.runtime.block_on(granted(&*store, &policy, "extract", 200));
    assert_eq!(table.items().len(), 2);
}

/// P10: the key is `api_type` and the number of the minute.
#[test]
fn an_item_has_the_documented_key() {
    let table = Table::new(Layout::ApiMinute);
    let store = table.store(Arc::new(ManualClock::at(NOW)));
    table.runtime.block_on(granted(&store, &policy("200 requests / minute"), "extract", 1));
    let item = &table.items()[0];
    assert_eq!(item["api_type"], AttributeValue::S("extract".to_owned()));
    assert_eq!(item["minute"], AttributeValue::N((NOW.as_micros() / 60_000_000).to_string()));
    assert_eq!(item["request_count"], AttributeValue::N("1".to_owned()));
    assert_eq!(item["ttl"], AttributeValue::N("1739961180".to_owned()));
}

#[test]
fn a_take_without_a_subject_is_refused_with_advice() {
    let table = Table::new(Layout::ApiMinute);
    let store = table.store(Arc::new(ManualClock::at(NOW)));
    let error = table.runtime.block_on(ask(&store, &policy("5 / minute"), "", 1, Action::Peek)).unwrap_err();
    assert!(error.message.contains("needs a subject: it is the `api_type` of the key"), "{error}");
}
