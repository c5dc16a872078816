//! Programs that make a call and end: what they know reaches the store all the same.

use std::time::Duration;

use tollway::Limiter;
use tollway::core::Feedback;
use tollway_client::{ApiClient, CallError, CallFailure, blocking};
use tollway_testkit::servers::RedisServer;
use tollway_vendor::server::VendorServer;

use crate::{limiter_of, vendor, vendor_with};

/// More programs than a pace without reports grants within a minute.
const PROGRAMS: usize = 12;

fn config(store: &str, url: &str) -> String {
    format!(
        "[store]\nurl = \"{store}\"\n[apis.test]\nbase_url = \"{url}\"\nrate = \"auto\"\nmax_time = \"20s\""
    )
}

fn on_redis(redis: &RedisServer, url: &str) -> Limiter {
    limiter_of(&config(&redis.url(), url))
}

fn vendor_on(runtime: &tokio::runtime::Runtime) -> VendorServer {
    runtime.block_on(vendor(&["1000 / second"], "http"))
}

/// A program with one task that calls twice, and ends without a flush. The first call has been reported by then.
fn run_program(config: &str) -> Result<(), CallError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = ApiClient::of(&limiter_of(config), "test").unwrap();
        client.get("/").send().await?.text().await.unwrap();
        client.get("/").send().await.map(drop)
    })
}

/// D1, D5: a program like the first one of the guide, again and again with one store.
#[test]
fn programs_that_end_after_two_calls_do_not_wait_for_each_other() {
    let (redis, vendors) = (RedisServer::start(), tokio::runtime::Runtime::new().unwrap());
    let vendor = vendor_on(&vendors);
    for program in 0..PROGRAMS {
        run_program(&config(&redis.url(), &vendor.url()))
            .unwrap_or_else(|error| panic!("{program}: {error}"));
    }
    assert_eq!(vendor.counts().accepted, 2 * PROGRAMS as u64);
}

/// The same on a thread without a runtime.
#[test]
fn blocking_client_reports_when_it_is_dropped() {
    let (redis, vendors) = (RedisServer::start(), tokio::runtime::Runtime::new().unwrap());
    let vendor = vendor_on(&vendors);
    for program in 0..PROGRAMS {
        let client = blocking::ApiClient::of(&on_redis(&redis, &vendor.url()), "test").unwrap();
        for _ in 0..2 {
            let answer = client.get("/").send().unwrap_or_else(|error| panic!("{program}: {error}"));
            answer.text().unwrap();
        }
    }
    assert_eq!(vendor.counts().accepted, 2 * PROGRAMS as u64);
}

/// A vendor that is down uses up nothing: its callers learn that at once, not after a cap of a minute.
#[test]
fn refused_connections_use_up_no_grants() {
    let redis = RedisServer::start();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for program in 0..PROGRAMS {
        let error = runtime.block_on(async {
            let client = ApiClient::of(&on_redis(&redis, &format!("http://{closed}")), "test").unwrap();
            let error = client.get("/").send().await.unwrap_err();
            client.limiter().flush().await;
            error
        });
        assert!(matches!(error.failure, CallFailure::Send(_)), "{program}: {error}");
    }
}

/// Calls whose callers leave, and calls that run out of time, have ended.
#[tokio::test]
async fn calls_without_an_answer_are_reported_as_ended() {
    let slow = |settings: &mut tollway_vendor::server::VendorSettings| {
        settings.terms.latency = [tollway::Span::from_mins(5); 2].into();
    };
    let vendor = vendor_with(&["1000 / second"], "http", slow).await;
    let keys = format!("[apis.test]\nbase_url = \"{}\"\nrate = \"auto\"\ntimeout = \"300ms\"", vendor.url());
    let limiter = limiter_of(&keys);
    let client = ApiClient::of(&limiter, "test").unwrap();
    for call in 0..PROGRAMS {
        let sent = client.get("/").max_time(Duration::from_secs(20)).send();
        let sent =
            tokio::time::timeout(Duration::from_millis(if call % 2 == 0 { 20_000 } else { 100 }), sent);
        match sent.await {
            // It ran out of time.
            Ok(Err(error)) => assert!(matches!(error.failure, CallFailure::Timeout(_)), "{call}: {error}"),
            Ok(Ok(_)) => panic!("the vendor answers after five minutes"),
            // Its caller has left.
            Err(_) => {}
        }
    }
}

/// B3: a flush waits for what goes on after a call, such as tokens that are settled.
#[tokio::test]
async fn flush_waits_for_tokens_that_are_settled() {
    let redis = RedisServer::start();
    let vendor = vendor(&["100k tokens / minute"], "openai").await;
    let config = format!(
        "[store]\nurl = \"{}\"\n[apis.test]\nbase_url = \"{}\"\nlimits = [\"1000000 tokens / hour\"]\ncost = {{ tokens = \"5000\" }}",
        redis.url(),
        vendor.url()
    );
    let limiter = limiter_of(&config);
    let client = ApiClient::of(&limiter, "test").unwrap();
    let question = serde_json::json!({ "model": "m", "max_tokens": 10, "messages": [] });
    client.post("/v1/chat/completions").json(&question).send().await.unwrap().bytes().await.unwrap();
    client.limiter().flush().await;
    let used = limiter.usage("test").await.unwrap().limits[0].used;
    assert!(used < 1_000, "{used}");
    let learned = limiter.feedback("test", Feedback::default()).await.unwrap();
    assert_eq!(learned.held_until, None);
}
