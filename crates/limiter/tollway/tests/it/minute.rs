//! Tables of minutes on the public API (A2, A4, A5): waiting without polling, what the log says, what a config may say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway::core::{Answer, Operation};
use tollway::{Clock, Config, Limiter, Span, Store, Timestamp};
use tollway_dynamodb::minute::{Layout, MinuteStore};
use tollway_testkit::servers::{DynamoServer, python_tool};
use tollway_testkit::{ManualClock, keep_callsites_enabled};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// 2025-02-19T10:30:20Z.
const NOW: Timestamp = Timestamp::from_secs(1_739_961_020);

/// Makes the table as the system has it that already runs, with boto3.
fn make_table(server: &DynamoServer) {
    keep_callsites_enabled();
    let mut python = Command::new(python_tool("python3"))
        .arg("-")
        .env("AWS_ENDPOINT_URL", format!("http://{}", server.addr()))
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "import boto3\nboto3.client('dynamodb').create_table(TableName='adobe-api-rate-limit', \
                  BillingMode='PAY_PER_REQUEST', \
                  KeySchema=[{'AttributeName': 'minute_key', 'KeyType': 'HASH'}], \
                  AttributeDefinitions=[{'AttributeName': 'minute_key', 'AttributeType': 'S'}])";
    python.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}

fn url(server: &DynamoServer) -> String {
    format!("dynamodb://test:test@?layout=minute&deadline=20s&endpoint=http://{}", server.addr())
}

fn limiter(server: &DynamoServer, clock: &Arc<ManualClock>, limit: &str) -> (Limiter, Arc<MinuteStore>) {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    let options = url(server).parse().unwrap();
    let store = Arc::new(MinuteStore::with_clock(&options, Layout::Minute, Arc::clone(&clock)).unwrap());
    let builder = Limiter::builder().policy("adobe", [limit]).unwrap();
    (builder.store(Arc::clone(&store) as _).clock(clock).build(), store)
}

/// What was logged, line by line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tollway_dynamodb::minute")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A5: the three log lines, word for word; `api_type` is the take's subject, and appears there only (A4: one budget).
#[test]
fn the_log_lines_are_the_documented_ones() {
    let server = DynamoServer::start();
    make_table(&server);
    let clock = Arc::new(ManualClock::at(NOW));
    let (limiter, _) = limiter(&server, &clock, "2 requests / minute");
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            drop(limiter.take("adobe").subject("autotag").await.unwrap());
            drop(limiter.take("adobe").subject("extract").await.unwrap());
            let waiting = limiter.take("adobe").subject("autotag");
            let mut waiting = std::pin::pin!(std::future::IntoFuture::into_future(waiting));
            let waits = || lines.0.lock().unwrap().len() >= 4;
            // It is polled until it has said so, and waits for the clock.
            while !waits() {
                tokio::select! {
                    biased;
                    _ = &mut waiting => panic!("there are only two a minute"),
                    () = tokio::task::yield_now() => {}
                }
            }
            clock.set(Timestamp::from_secs(1_739_961_060));
            drop(waiting.await.unwrap());
        });
    });
    let expected = [
        "Rate limit token acquired for autotag: 1/2 in minute 2025-02-19-10-30",
        "Rate limit token acquired for extract: 2/2 in minute 2025-02-19-10-30",
        "Rate limit reached (2/min), waiting for next minute window...",
        "Waiting 40 seconds for next minute window...",
        "Rate limit token acquired for autotag: 1/2 in minute 2025-02-19-10-31",
    ];
    assert_eq!(*lines.0.lock().unwrap(), expected);
}

/// A2: usage reports count, limit, window and time to reset.
#[test]
fn usage_reports_count_limit_and_time_to_reset() {
    let server = DynamoServer::start();
    make_table(&server);
    let clock = Arc::new(ManualClock::at(NOW));
    let (limiter, _) = limiter(&server, &clock, "200 requests / minute");
    for _ in 0..3 {
        drop(limiter.try_take("adobe").now().unwrap());
    }
    let usage = &limiter.usage("adobe").now().unwrap().limits[0];
    assert_eq!((usage.used, usage.amount, usage.remaining), (3, 200, 197));
    assert_eq!(usage.resets_in, Span::from_secs(40));
}

/// Counts the calls to the store.
struct Counted(Arc<MinuteStore>, AtomicU64);

impl Store for Counted {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.apply(batch)
    }
}

/// A2: many takes wait for the next minute without calling the store. They have 40 seconds to wait, of which 25 pass: a timer
/// that comes round meanwhile is a poll.
#[test]
fn waiting_takes_do_not_poll() {
    let server = DynamoServer::start();
    make_table(&server);
    let clock = Arc::new(ManualClock::at(NOW));
    let (_, store) = limiter(&server, &clock, "2 requests / minute");
    let counted = Arc::new(Counted(store, AtomicU64::new(0)));
    let builder = Limiter::builder().policy("adobe", ["2 requests / minute"]).unwrap();
    let limiter = builder.store(counted.clone()).clock(clock.clone()).build();
    let asked = || counted.1.load(Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wait = |limiter: &Limiter| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.take("adobe").await.map(drop) })
    };
    runtime.block_on(async {
        for _ in 0..2 {
            drop(limiter.take("adobe").await.unwrap());
        }
        let (before, waiting) = (asked(), [(); 4].map(|()| wait(&limiter)));
        // Each calls once, and the take whose turn it is once more.
        while asked() - before < 5 {
            tokio::task::yield_now().await;
        }
        for _ in 0..25 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Span::from_secs(1));
        }
        assert_eq!(asked() - before, 5, "a take called the store although none could be granted");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        // A take with a short wait is granted when the minute begins.
        clock.set(Timestamp::from_millis(1_739_961_059_900));
        let (before, waits) = (asked(), wait(&limiter));
        while asked() - before < 2 {
            tokio::task::yield_now().await;
        }
        clock.set(Timestamp::from_secs(1_739_961_060));
        waits.await.unwrap().unwrap();
    });
}

/// A4: the store of a config; the default table is the documented one.
#[test]
fn a_config_uses_the_existing_table() {
    let server = DynamoServer::start();
    make_table(&server);
    let text = format!("store.url = '{}'\npolicies.adobe.limits = ['200 requests / minute']", url(&server));
    let config = Config::parse(&text).unwrap();
    let limiter = Limiter::builder().config(&config).unwrap().build();
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    assert_eq!(limiter.usage("adobe").now().unwrap().limits[0].used, 1);
    let error = limiter.set_limit("adobe", "requests_per_minute", "9").now().unwrap_err();
    assert_eq!(error.to_string(), "this store keeps no limits; change the config file instead");
}

/// A4: an unsupported policy is refused when the config is read, with its position.
#[test]
fn a_config_with_policies_that_do_not_fit_is_refused() {
    let parse = |policies: &str| {
        let text = format!("[store]\nurl = 'dynamodb://?layout=minute'\n{policies}");
        Config::parse(&text).unwrap_err().to_string()
    };
    let error = parse("[policies.adobe]\nlimits = ['200 requests / hour']");
    assert!(error.contains("line 3, column 11: policy adobe does not fit the layout minute"), "{error}");
    let error = parse("[policies.a]\nlimits = ['2 / minute']\n[policies.b]\nlimits = ['2 / minute']");
    assert!(error.contains("the layout minute has one budget, and policy a has it"), "{error}");
}
