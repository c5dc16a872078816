//! The layout `minute` (A4): one budget with tasks in Python that count in the same table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::minute_table;
use crate::minute_table::{END, NOW, Table, ask, granted, number, policy, take, take_all};
use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::{Action, Fault, Outcome, Retry, Settled, Span, Store};
use tollway_dynamodb::minute::{Layout, MinuteStore};
use tollway_testkit::ManualClock;
use tollway_testkit::faults::{self, FaultProxy};

/// What a task in Python does: one conditional update for each token, until there is none.
pub(crate) const PYTHON: &str = r#"
import datetime, os, sys, time
from concurrent.futures import ThreadPoolExecutor
import boto3

limit, now = int(sys.argv[1]), int(sys.argv[2])
minute = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).replace(second=0)
ttl = int((minute + datetime.timedelta(minutes=3)).timestamp())
client = boto3.client('dynamodb')

def acquire():
    try:
        client.update_item(
            TableName=os.environ['RATE_LIMIT_TABLE'],
            Key={'minute_key': {'S': minute.strftime('%Y-%m-%d-%H-%M')}},
            UpdateExpression='SET request_count = if_not_exists(request_count, :zero) + :one, #ttl = :ttl',
            ConditionExpression='attribute_not_exists(request_count) OR request_count < :limit',
            ExpressionAttributeNames={'#ttl': 'ttl'},
            ExpressionAttributeValues={
                ':zero': {'N': '0'}, ':one': {'N': '1'}, ':limit': {'N': str(limit)}, ':ttl': {'N': str(ttl)}})
        return True
    except client.exceptions.ConditionalCheckFailedException:
        return False

def task(_):
    count = 0
    while acquire():
        count += 1
        time.sleep(0.01)  # what the token is for
    return count

print('ready', flush=True)
sys.stdin.readline()
threads = int(os.environ.get('THREADS', '4'))
with ThreadPoolExecutor(threads) as pool:
    print(sum(pool.map(task, range(threads))), flush=True)
"#;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(NOW))
}

/// A1, A4: two tasks in Python and two Tollway processes, many callers each: exactly 200, never 201.
#[test]
fn a_budget_is_shared_with_python_to_the_last_token() {
    let table = Table::new(Layout::Minute);
    let policy = policy("200 requests / minute");
    let mut pythons = [table.python(PYTHON, 200, NOW), table.python(PYTHON, 200, NOW)];
    pythons.iter_mut().for_each(|python| python.go());
    // Not before they have begun: both count at the same time.
    while table.items().is_empty() {
        std::thread::yield_now();
    }
    let ours: u64 = table.runtime.block_on(async {
        let stores = [0, 1].map(|_| Arc::new(table.store(clock())));
        let takes = stores.map(|store| tokio::spawn(take_all(store, policy.clone(), "autotag", 16)));
        let mut sum = 0;
        for taken in takes {
            sum += taken.await.unwrap();
        }
        sum
    });
    let theirs: u64 = pythons.into_iter().map(minute_table::Python::granted).sum();
    assert_eq!(ours + theirs, 200, "{ours} of ours and {theirs} of theirs");
    assert!(ours > 0 && theirs > 0, "{ours} of ours and {theirs} of theirs");
    assert_eq!(table.count(), 200);
}

/// A4, A6: key, count and TTL as documented, besides the attributes that Tollway adds.
#[test]
fn an_item_has_the_documented_attributes() {
    let table = Table::new(Layout::Minute);
    let store = table.store(clock());
    table.runtime.block_on(granted(&store, &policy("200 requests / minute"), "autotag", 3));
    let item = &table.items()[0];
    assert_eq!(item["minute_key"], AttributeValue::S("2025-02-19-10-30".to_owned()));
    assert_eq!(item["request_count"], AttributeValue::N("3".to_owned()));
    assert_eq!(item["ttl"], AttributeValue::N("1739961180".to_owned()));
    let more: Vec<&String> = item.keys().filter(|name| name.starts_with("writer_")).collect();
    assert_eq!((more.len(), item.len()), (1, 4));
}

/// A2: a denied take says when the next minute begins; a denial writes nothing.
#[test]
fn a_denial_names_the_next_minute_and_writes_nothing() {
    let table = Table::new(Layout::Minute);
    let (clock, policy) = (clock(), policy("2 requests / minute"));
    let store = table.store(Arc::clone(&clock) as _);
    table.runtime.block_on(async {
        granted(&store, &policy, "a", 2).await;
        let writes = store.counters().writes.load(Ordering::Relaxed);
        let denied = take(&store, &policy, "b", 1).await;
        assert_eq!((denied.denial().unwrap().retry_at, denied.wait()), (END, Span::from_secs(40)));
        assert_eq!(store.counters().writes.load(Ordering::Relaxed), writes);
        clock.set(END);
        assert_eq!(granted(&store, &policy, "b", 1).await.good_until, END.plus(Span::from_secs(60)));
    });
}

/// Concurrent takes of a process are one write, and no read comes before it.
#[test]
fn concurrent_takes_are_combined_into_few_writes() {
    let table = Table::new(Layout::Minute);
    let (store, policy) = (Arc::new(table.store(clock())), policy("200 requests / minute"));
    let taken = table.runtime.block_on(take_all(Arc::clone(&store), policy, "autotag", 64));
    let writes = store.counters().writes.load(Ordering::Relaxed);
    assert_eq!((taken, table.count()), (200, 200));
    assert!(writes <= 100, "{writes} writes for 200 tokens of 64 callers");
}

/// All or nothing: where not all callers fit, as many as do are granted, and a large cost does not take what is left.
#[test]
fn as_many_as_fit_are_granted() {
    let table = Table::new(Layout::Minute);
    let policy = policy("10 requests / minute");
    let (one, other) = (table.store(clock()), table.store(clock()));
    table.runtime.block_on(async {
        granted(&other, &policy, "a", 7).await;
        let asked = [5, 1, 4, 1, 1, 1].map(|cost| take(&one, &policy, "a", cost));
        let decisions = futures_util::future::join_all(asked).await;
        let fitted = decisions.iter().filter(|decision| decision.is_granted()).count();
        assert_eq!(fitted, 3, "{decisions:?}");
    });
    assert_eq!(table.count(), 10);
}

/// A2: usage reports count, limit and time to reset, of all writers.
#[test]
fn usage_includes_every_writer() {
    let table = Table::new(Layout::Minute);
    let (policy, one, other) = (policy("200 requests / minute"), table.store(clock()), table.store(clock()));
    table.runtime.block_on(async {
        granted(&one, &policy, "autotag", 3).await;
        granted(&other, &policy, "extract", 4).await;
        let Outcome::Peeked(charges) = ask(&one, &policy, "", 1, Action::Peek).await.unwrap() else {
            panic!("no reading")
        };
        let reading = charges[0].readings[0];
        assert_eq!((reading.used, reading.remaining, reading.capacity), (7, 193, 200));
        assert_eq!((reading.resets_at, reading.as_of), (END, NOW));
    });
}

/// A permit is given back or settled in its minute, and not later.
#[test]
fn returned_units_are_available_to_others() {
    let table = Table::new(Layout::Minute);
    let (clock, policy) = (clock(), policy("10 requests / minute"));
    let store = table.store(Arc::clone(&clock) as _);
    table.runtime.block_on(async {
        let first = granted(&store, &policy, "a", 10).await;
        let back = Action::Return { booking: first, remember: false };
        assert_eq!(ask(&store, &policy, "a", 10, back).await, Ok(Outcome::Settled(Settled::Whole)));
        let second = granted(&store, &policy, "a", 8).await;
        let actual = [policy.cost([("requests", 3)]).unwrap()].into();
        let settle = Action::Settle { booking: second, actual, remember: false };
        assert_eq!(ask(&store, &policy, "a", 8, settle).await, Ok(Outcome::Settled(Settled::Whole)));
        granted(&store, &policy, "a", 7).await;
        clock.set(END);
        let late = Action::Return { booking: second, remember: false };
        ask(&store, &policy, "a", 8, late).await.unwrap();
    });
    assert_eq!(number(&table.items()[0], "request_count"), 10);
}

/// G9: a write whose answer was lost is proven by its mark, and counts once.
#[test]
fn a_lost_answer_counts_once() {
    let table = Table::new(Layout::Minute);
    let proxy = FaultProxy::to(table.server.addr());
    let policy = policy("10 requests / minute");
    let store = table.store_at(&format!("http://{}", proxy.addr()), clock());
    table.runtime.block_on(async {
        granted(&store, &policy, "a", 1).await;
        for taken in 1..4 {
            proxy.set(faults::Fault::LoseReplies { times: Some(1) });
            granted(&store, &policy, "a", 2).await;
            assert_eq!(proxy.counts().replies_lost, taken, "the reply was not lost");
        }
    });
    assert_eq!(table.count(), 7);
}

/// G10: a lost race and a lost answer are retries, here as on tables of lines.
#[test]
fn retries_are_counted() {
    let table = Table::new(Layout::Minute);
    let proxy = FaultProxy::to(table.server.addr());
    let policy = policy("10 requests / minute");
    let one = table.store_at(&format!("http://{}", proxy.addr()), clock());
    let other = table.store(clock());
    let retries = |store: &MinuteStore| {
        let figures = store.figures();
        let tally = |name| figures.tallies.iter().find(|(event, _)| *event == name).unwrap().1.sum;
        let count = figures.counts.iter().find(|(event, _)| *event == "retries").unwrap().1;
        assert_eq!(count, tally("retries"));
        (count, tally("conditional_failures"))
    };
    table.runtime.block_on(async {
        granted(&one, &policy, "a", 1).await;
        assert_eq!(retries(&one), (0, 0));
        granted(&other, &policy, "a", 5).await;
        // As far as it knows there is room for nine.
        assert!(!take(&one, &policy, "a", 9).await.is_granted());
        assert_eq!(retries(&one), (1, 1));
        proxy.set(faults::Fault::LoseReplies { times: Some(1) });
        granted(&one, &policy, "a", 1).await;
        let (again, lost) = retries(&one);
        assert!(again >= 2 && lost >= 1, "{again} and {lost}");
    });
}

/// Marks of so many others, as fresh as can be.
fn strangers() -> impl Iterator<Item = (String, AttributeValue)> {
    let number = |number: u64| AttributeValue::N(number.to_string());
    (0..64).map(move |slot| {
        let mark = [
            ("by".to_owned(), AttributeValue::S(format!("stranger {slot}"))),
            ("number".to_owned(), number(1)),
            ("at".to_owned(), number(NOW.as_micros() / 1_000_000)),
        ];
        (format!("writer_{slot}"), AttributeValue::M(mark.into()))
    })
}

/// An item has room for 64 marks; one more pushes the oldest out, and says so.
#[test]
fn an_item_stays_small() {
    let table = Table::new(Layout::Minute);
    let key = ("minute_key".to_owned(), AttributeValue::S("2025-02-19-10-30".to_owned()));
    table.put(strangers().chain([key]).collect());
    let store = table.store(clock());
    table.runtime.block_on(granted(&store, &policy("5 / minute"), "", 1));
    let item = &table.items()[0];
    assert_eq!(number(item, "pushed_out"), NOW.as_micros() / 1_000_000);
    let left = strangers().filter(|(slot, mark)| item.get(slot) == Some(mark)).count();
    assert_eq!((left, number(item, "request_count")), (63, 1));
}

/// G9: if the mark was pushed out meanwhile, a take counts as spent, and is never taken again.
#[test]
fn an_evicted_mark_is_no_proof() {
    let table = Table::new(Layout::Minute);
    let proxy = FaultProxy::to(table.server.addr());
    let policy = policy("100 requests / minute");
    let store = Arc::new(table.store_at(&format!("http://{}", proxy.addr()), clock()));
    proxy.set(faults::Fault::LoseReplies { times: None });
    let taking = table.runtime.spawn(async move {
        let terms = minute_table::terms();
        ask(&*store, &policy, "a", 2, Action::Take(terms)).await
    });
    while proxy.counts().replies_lost == 0 || table.items().is_empty() {
        std::thread::yield_now();
    }
    let mut item = table.items().remove(0);
    item.extend(strangers());
    item.insert("pushed_out".to_owned(), AttributeValue::N((NOW.as_micros() / 1_000_000).to_string()));
    table.put(item);
    proxy.clear();
    let error = table.runtime.block_on(taking).unwrap().unwrap_err();
    assert_eq!(error.retry, Retry::Unclear, "{error}");
    assert_eq!(table.count(), 2);
}

/// What does not fit is refused with a sentence, and nothing is written.
#[test]
fn unsupported_policies_are_refused() {
    let table = Table::new(Layout::Minute);
    let store = table.store(clock());
    let hourly = policy("200 requests / hour");
    let refused = table.runtime.block_on(ask(&store, &hourly, "", 1, Action::Peek)).unwrap_err();
    assert_eq!((refused.fault, refused.retry), (Fault::Caller, Retry::Useless));
    assert!(refused.message.contains("does not fit the layout minute"), "{refused}");
    assert!(table.items().is_empty());
    assert!(store.settings().is_none());
}

/// An invalid count is an error that says what to do.
#[test]
fn a_foreign_item_is_not_overwritten() {
    let table = Table::new(Layout::Minute);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    table.put(
        [("minute_key".to_owned(), text("2025-02-19-10-30")), ("request_count".to_owned(), text("x"))].into(),
    );
    let store = table.store(clock());
    let error = table.runtime.block_on(ask(&store, &policy("5 / minute"), "", 1, Action::Peek)).unwrap_err();
    assert!(error.fault == Fault::Account && error.message.contains("delete the item"), "{error}");
}
