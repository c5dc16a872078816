//! Takes per second of 32 callers on one hot account: combined, one call per take, and as most programs write it.
//!
//! `cargo run --release -p tollway-postgres --example hot_line -- postgres://user@host/database [seconds]`
//!
//! The rival is `BEGIN; SELECT .. FOR UPDATE; UPDATE; COMMIT` per take, with prepared statements, on as many connections
//! as the store has and again on one for each caller. All run in the same process, one after the other, in three rounds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_postgres::NoTls;
use tollway_core::{Action, Charge, Operation, PermitId, Policy, Store, Subject, Terms};
use tollway_postgres::{PostgresLink, PostgresStore};
use tollway_remote::{Call, Link, Tag};

const CALLERS: usize = 32;

static SEQUENCE: AtomicU64 = AtomicU64::new(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut words = std::env::args().skip(1);
    let url = words.next().expect("the URL of a database");
    let seconds = words.next().map_or(5, |word| word.parse().expect("seconds"));
    let time = Duration::from_secs(seconds);
    let bare = url.split('?').next().unwrap().to_owned();
    println!("{:<55}{:>12}", "32 callers, one hot account", "takes/s");
    for _ in 0..3 {
        row("store, combined (4 connections)", time, combined(&url, time).await);
        row("store, one call per take (4 connections)", time, uncombined(&url, time).await);
        row("BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT (4)", time, naive(&bare, 4, time).await);
        row("BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT (32)", time, naive(&bare, CALLERS, time).await);
    }
}

fn row(what: &str, time: Duration, takes: u64) {
    println!("{what:<55}{:>12}", takes / time.as_secs());
}

/// A take of one request on the hot account.
fn take(permit: u64, policy: &Arc<Policy>) -> Operation {
    let action = Action::Take(Terms::now(PermitId(u128::from(permit))));
    Operation::one(Charge::new(Arc::clone(policy), Subject::SHARED), action)
}

fn policy() -> Arc<Policy> {
    Arc::new(Policy::new("hot", ["1000000000 requests / day"]).unwrap())
}

/// What callers get: takes that come at the same time share a transaction.
async fn combined(url: &str, time: Duration) -> u64 {
    let store = Arc::new(PostgresStore::connect(url).unwrap());
    let policy = policy();
    repeat(CALLERS, time, move |permit| {
        let (store, policy) = (Arc::clone(&store), policy.clone());
        async move {
            store.apply(&[take(permit, &policy)]).await.unwrap();
        }
    })
    .await
}

/// The same without combining: every take is a call, and a transaction, of its own. Four links of one connection each,
/// because one writer has one call of a tag in flight.
async fn uncombined(url: &str, time: Duration) -> u64 {
    let one = format!("{url}{}connections=1", if url.contains('?') { '&' } else { '?' });
    let link = || Mutex::new(Arc::new(PostgresLink::new(one.parse().unwrap())));
    let links = Arc::new([link(), link(), link(), link()]);
    let policy = policy();
    repeat(CALLERS, time, move |number| {
        let (links, policy) = (Arc::clone(&links), policy.clone());
        async move {
            let operation = take(number, &policy);
            let tag = Tag::of(&operation).unwrap();
            let link = links[number as usize % links.len()].lock().await;
            let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
            let call = Call { tag, sequence, again: false, operations: [operation].into() };
            let answers = Arc::clone(&link).send(vec![Arc::new(call)]).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
    })
    .await
}

/// As most programs write it.
async fn naive(url: &str, connections: usize, time: Duration) -> u64 {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        clients.push(client);
    }
    let table =
        "CREATE TABLE IF NOT EXISTS naive_limits (id int PRIMARY KEY, used bigint) WITH (fillfactor = 50);
                 INSERT INTO naive_limits VALUES (1, 0) ON CONFLICT DO NOTHING";
    clients[0].batch_execute(table).await.unwrap();
    let takes = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + time;
    let workers = clients.into_iter().map(|client| {
        let takes = Arc::clone(&takes);
        tokio::spawn(async move {
            let select =
                client.prepare("SELECT used FROM naive_limits WHERE id = 1 FOR UPDATE").await.unwrap();
            let update = client.prepare("UPDATE naive_limits SET used = $1 WHERE id = 1").await.unwrap();
            while Instant::now() < end {
                client.batch_execute("BEGIN").await.unwrap();
                let used: i64 = client.query_one(&select, &[]).await.unwrap().get(0);
                client.execute(&update, &[&(used + 1)]).await.unwrap();
                client.batch_execute("COMMIT").await.unwrap();
                takes.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    futures_util::future::join_all(workers).await;
    takes.load(Ordering::Relaxed)
}

/// Lets so many callers take again and again; counts their takes.
async fn repeat<F: Future<Output = ()> + Send + 'static>(
    callers: usize,
    time: Duration,
    take: impl Fn(u64) -> F + Clone + Send + 'static,
) -> u64 {
    take(0).await;
    let takes = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + time;
    let workers = (0..callers).map(|_| {
        let (takes, take) = (Arc::clone(&takes), take.clone());
        tokio::spawn(async move {
            while Instant::now() < end {
                take(takes.fetch_add(1, Ordering::Relaxed) + 1).await;
            }
        })
    });
    futures_util::future::join_all(workers).await;
    takes.load(Ordering::Relaxed)
}
