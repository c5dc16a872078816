//! What a policy does while its store does not decide: open, closed, local; the strictest of several. G7, C7, A-6.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::paused::PausedClock;
use tollway::core::{Answer, Fault, Feedback, Operation, Retry, WhenStoreFails};
use tollway::{Clock, Durations, Limiter, Policy, Settled, Span, Store, StoreError, TakeError};
use tollway_memory::MemoryStore;

/// A store that can be out of reach.
struct Flaky {
    memory: MemoryStore,
    away: AtomicBool,
}

impl Store for Flaky {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if self.away.load(Ordering::SeqCst) {
            let message = "connection refused".to_owned();
            return Answer::now(Err(StoreError { fault: Fault::Network, retry: Retry::Unclear, message }));
        }
        self.memory.apply(batch)
    }
}

/// A limiter whose store is out of reach from the start.
fn limiter<const N: usize>(
    policies: [(&str, &str, WhenStoreFails); N],
) -> (Limiter, Arc<Flaky>, Arc<PausedClock>) {
    let clock = PausedClock::start();
    let memory = MemoryStore::new(clock.clone() as Arc<dyn Clock>);
    let store = Arc::new(Flaky { memory, away: AtomicBool::new(true) });
    let add = |builder: tollway::LimiterBuilder, (name, limit, mode): (&str, &str, WhenStoreFails)| {
        builder.with_policy(Policy::new(name, [limit]).unwrap().with_when_store_fails(mode)).unwrap()
    };
    let builder = policies.into_iter().fold(Limiter::builder(), add);
    (builder.store(store.clone()).clock(clock.clone()).build(), store, clock)
}

/// How many of so many takes are granted; all of them say that they were decided without the store.
async fn granted(limiter: &Limiter, policy: &str, takes: usize) -> usize {
    let mut granted = 0;
    for _ in 0..takes {
        match limiter.try_take(policy).await.unwrap() {
            tollway::Taken::Granted(permit) => {
                assert!(permit.degraded());
                granted += 1;
            }
            tollway::Taken::Denied(denied) => assert!(denied.degraded()),
        }
    }
    granted
}

#[tokio::test(start_paused = true)]
async fn c7_open_grants_with_the_degraded_flag() {
    let (limiter, _store, _clock) = limiter([("api", "1 / minute", WhenStoreFails::Open)]);
    assert_eq!(granted(&limiter, "api", 10).await, 10);
    let mut waited = limiter.take("api").await.unwrap();
    waited.begin().await.unwrap();
    assert_eq!(waited.give_back().await.unwrap(), Settled::Dropped, "no store counted it");
    assert_eq!(limiter.take("api").await.unwrap().settle("requests", 5).await.unwrap(), Settled::Dropped);
}

#[tokio::test(start_paused = true)]
async fn c7_closed_fails_with_the_cause() {
    let (limiter, _store, clock) = limiter([("api", "1 / minute", WhenStoreFails::Closed)]);
    for error in [limiter.take("api").await.unwrap_err(), limiter.try_take("api").await.unwrap_err()] {
        assert!(matches!(&error, TakeError::Store(cause) if cause.fault == Fault::Network), "{error}");
        assert!(error.to_string().contains("connection refused"), "{error}");
    }
    assert!(matches!(limiter.usage("api").await, Err(TakeError::Store(_))));
    assert_eq!(clock.millis(), 0, "no take waited");
}

/// G7: each process keeps to a tenth of every limit by itself, rounded down, at least one.
#[tokio::test(start_paused = true)]
async fn g7_local_grants_a_tenth_with_the_degraded_flag() {
    for (limit, share) in [
        ("200 / minute", 20),
        ("19 / minute", 1),
        ("3 / minute", 1),
        ("200 / minute sliding", 20),
        ("200 / minute bucket", 20),
        ("7 / second paced", 1),
        ("200 / hour from first call", 20),
    ] {
        let (limiter, _store, _clock) = limiter([("api", limit, WhenStoreFails::Local)]);
        assert_eq!(granted(&limiter, "api", 50).await, share, "{limit}");
    }
}

/// the burst is what is granted at once; a tenth of the rate with the whole burst is more than a tenth.
#[tokio::test(start_paused = true)]
async fn g7_local_grants_a_tenth_of_a_burst() {
    let (limiter, _store, _clock) = limiter([("api", "100 / minute bucket burst 50", WhenStoreFails::Local)]);
    assert_eq!(granted(&limiter, "api", 60).await, 5);
}

/// A call that is over frees its local slot as it would free the store's.
#[tokio::test(start_paused = true)]
async fn g7_local_slots_are_freed_when_calls_are_done() {
    let (limiter, _store, _clock) = limiter([("api", "20 concurrent", WhenStoreFails::Local)]);
    let take = || async { limiter.try_take("api").await.unwrap().granted() };
    let (one, two) = (take().await.unwrap(), take().await.unwrap());
    assert!(take().await.is_none(), "two of twenty");
    one.done().await.unwrap();
    let three = take().await.unwrap();
    drop(two);
    assert!(take().await.is_some());
    drop(three);
}

#[tokio::test(start_paused = true)]
async fn g7_local_takes_wait_in_a_local_queue() {
    let (limiter, _store, clock) = limiter([("api", "10 / second paced", WhenStoreFails::Local)]);
    for time in [0, 1_000, 2_000] {
        assert!(limiter.take("api").await.unwrap().degraded());
        assert_eq!(clock.millis(), time);
    }
    let error = limiter.take("api").max_wait(999.millis()).await.unwrap_err();
    assert_eq!(error.denied().unwrap().retry_after(), 1.seconds());
}

#[tokio::test(start_paused = true)]
async fn g7_local_meters_are_kept_for_each_subject() {
    let (limiter, _store, _clock) = limiter([("api", "20 / minute", WhenStoreFails::Local)]);
    for subject in ["a", "b"] {
        let mut granted = 0;
        for _ in 0..5 {
            granted += u64::from(limiter.try_take("api").subject(subject).await.unwrap().is_granted());
        }
        assert_eq!(granted, 2, "{subject}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_strictest_of_several_policies_decides() {
    use WhenStoreFails::{Closed, Local, Open};
    let (limiter, _store, _clock) = limiter([
        ("open", "100 / minute", Open),
        ("local", "30 / minute", Local),
        ("closed", "100 / minute", Closed),
    ]);
    let error = limiter.try_take("open").and("local").and("closed").await.unwrap_err();
    assert!(matches!(error, TakeError::Store(_)), "{error}");
    assert!(limiter.try_take("closed").and("open").await.is_err());
    let mut granted = 0;
    for _ in 0..9 {
        granted += u64::from(limiter.try_take("open").and("local").await.unwrap().is_granted());
    }
    assert_eq!(granted, 3, "a tenth of the local one");
}

/// A shadow never fails a take, not even when its store does.
#[tokio::test(start_paused = true)]
async fn a_shadow_policy_does_not_choose_the_fallback() {
    let (limiter, _store, _clock) = limiter([("open", "1 / minute", WhenStoreFails::Open)]);
    let shadow = Policy::new("trial", ["1 / minute"]).unwrap().with_when_store_fails(WhenStoreFails::Closed);
    let open = Policy::clone(&limiter.policies()[0]);
    limiter.replace_policies([open, shadow.with_shadow(true)]).unwrap();
    assert!(limiter.try_take("open").and("trial").await.unwrap().is_granted());
}

/// A store that has acted and takes a second to say so.
struct Slow(MemoryStore);

impl Store for Slow {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let answer = self.0.apply(batch);
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(1.seconds()).await;
            answer.await
        }))
    }
}

/// What a dropped take is granted is returned when the answer arrives.
#[tokio::test(start_paused = true)]
async fn a_take_dropped_before_the_answer_is_returned() {
    let clock = PausedClock::start();
    let store = Slow(MemoryStore::new(clock.clone() as Arc<dyn Clock>));
    let builder =
        Limiter::builder().policy("window", ["5 / hour"]).unwrap().policy("slots", ["5 concurrent"]);
    let limiter = builder.unwrap().store(Arc::new(store)).clock(clock).build();
    for policy in ["window", "slots"] {
        assert!(tokio::time::timeout(500.millis(), limiter.take(policy)).await.is_err());
        tokio::time::sleep(5.seconds()).await;
        assert_eq!(limiter.usage(policy).await.unwrap().limits[0].used, 0, "{policy}");
    }
}

/// Probes run in the background, by real time.
fn until_it_returns(limiter: &Limiter) {
    while limiter.store_status().degraded_since.is_some() {
        std::thread::sleep(5.millis());
    }
}

/// G7: it returns to the store by itself, and what was granted without it counts there, once.
#[tokio::test(start_paused = true)]
async fn g7_a_recovered_store_is_debited_the_local_grants_and_decides_again() {
    for limit in ["20 / minute", "20 / minute bucket", "20 / hour from first call"] {
        let (limiter, store, _clock) = limiter([("api", limit, WhenStoreFails::Local)]);
        assert_eq!(granted(&limiter, "api", 5).await, 2);
        assert_eq!(limiter.store_status().fallbacks, 1);
        store.away.store(false, Ordering::SeqCst);
        until_it_returns(&limiter);
        assert_eq!(limiter.usage("api").await.unwrap().limits[0].used, 2, "{limit}: as much as was granted");
        let permit = limiter.try_take("api").await.unwrap().granted().unwrap();
        assert!(!permit.degraded());
        store.away.store(true, Ordering::SeqCst);
        assert_eq!(granted(&limiter, "api", 5).await, 0, "local meters survive flapping");
        store.away.store(false, Ordering::SeqCst);
        until_it_returns(&limiter);
        assert_eq!(
            limiter.usage("api").await.unwrap().limits[0].used,
            3,
            "{limit}: nothing is debited twice"
        );
    }
}

/// G7: what the store last said is left bounds local grants, until the window is over.
#[tokio::test(start_paused = true)]
async fn g7_local_grants_nothing_of_a_window_that_was_used_up() {
    let (limiter, store, _clock) = limiter([("api", "20 / minute", WhenStoreFails::Local)]);
    store.away.store(false, Ordering::SeqCst);
    for _ in 0..20 {
        let taken = limiter.try_take("api").await.unwrap();
        assert!(taken.decision().unwrap().charges.is_empty(), "the caller did not ask for readings");
        assert!(taken.is_granted());
    }
    tokio::time::sleep(20.seconds()).await;
    store.away.store(true, Ordering::SeqCst);
    let denied = limiter.try_take("api").await.unwrap().denied().unwrap();
    assert!(denied.degraded());
    assert_eq!(denied.retry_after(), 40.seconds(), "when the window ends");
    let waited = limiter.take("api").max_wait(60.seconds()).await.unwrap();
    assert!(waited.degraded());
    assert_eq!(
        granted(&limiter, "api", 5).await,
        1,
        "a tenth of the new window, of which one was waited for"
    );
}

/// G7: a bucket goes on to refill while its store is away.
#[tokio::test(start_paused = true)]
async fn g7_local_grants_a_share_of_what_a_bucket_has_refilled() {
    let (limiter, store, _clock) = limiter([("api", "60 / minute bucket", WhenStoreFails::Local)]);
    store.away.store(false, Ordering::SeqCst);
    for _ in 0..60 {
        assert!(limiter.try_take("api").await.unwrap().is_granted());
    }
    store.away.store(true, Ordering::SeqCst);
    assert_eq!(limiter.try_take("api").await.unwrap().denied().unwrap().retry_after(), 1.seconds());
    tokio::time::sleep(30.seconds()).await;
    assert_eq!(granted(&limiter, "api", 9).await, 3, "a tenth of thirty");
}

/// G7: three failures in a row open the breaker; takes no longer wait for the store.
#[tokio::test(start_paused = true)]
async fn g7_three_failures_open_the_breaker() {
    let (limiter, store, _clock) = limiter([("api", "20 / minute", WhenStoreFails::Closed)]);
    for _ in 0..5 {
        assert!(limiter.try_take("api").await.is_err());
    }
    let status = limiter.store_status();
    assert!(status.degraded_since.is_some() && status.degraded_decisions == 5, "{status:?}");
    let error = limiter.try_take("api").await.unwrap_err().to_string();
    assert!(
        error.contains("not used until a probe succeeds") && error.contains("connection refused"),
        "{error}"
    );
    store.away.store(false, Ordering::SeqCst);
    until_it_returns(&limiter);
    assert!(limiter.try_take("api").await.unwrap().is_granted());
    assert_eq!(limiter.usage("api").await.unwrap().limits[0].used, 1, "what failed took nothing");
}

#[tokio::test(start_paused = true)]
async fn local_share_is_configurable() {
    let clock = PausedClock::start();
    let store = Arc::new(Flaky { memory: MemoryStore::new(clock.clone()), away: AtomicBool::new(true) });
    let policy = Policy::new("api", ["20 / minute"]).unwrap().with_local_share("1/4".parse().unwrap());
    let limiter = Limiter::builder().with_policy(policy).unwrap().store(store).clock(clock).build();
    assert_eq!(granted(&limiter, "api", 9).await, 5);
}

/// A limiter of an api whose store can be reached at first.
fn api_limiter(mode: &str) -> (Limiter, Arc<Flaky>, Arc<PausedClock>) {
    let config = format!(
        "[policies.api]\nlimits = [\"100 / minute bucket\"]\nwhen_store_fails = \"{mode}\"\n\
         [apis.api]\nbase_url = \"http://127.0.0.1:1\"\n"
    );
    let config = tollway::Config::parse(&config).unwrap();
    let clock = PausedClock::start();
    let memory = MemoryStore::new(clock.clone() as Arc<dyn Clock>);
    let store = Arc::new(Flaky { memory, away: AtomicBool::new(false) });
    let builder = Limiter::builder().config(&config).unwrap();
    (builder.store(store.clone()).clock(clock.clone()).build(), store, clock)
}

fn hold(seconds: u64) -> Feedback {
    Feedback { hold: Span::from_secs(seconds), ..Feedback::default() }
}

/// D5: what the store has granted begins without it.
#[tokio::test(start_paused = true)]
async fn d5_a_granted_permit_of_an_api_begins_without_the_store() {
    for mode in ["local", "open"] {
        let (limiter, store, clock) = api_limiter(mode);
        let mut permit = limiter.take("api").await.unwrap();
        store.away.store(true, Ordering::SeqCst);
        tokio::time::sleep(200.millis()).await;
        permit.begin().await.unwrap();
        assert_eq!(clock.millis(), 200, "{mode}");
    }
    let (limiter, store, _clock) = api_limiter("closed");
    let mut permit = limiter.take("api").await.unwrap();
    store.away.store(true, Ordering::SeqCst);
    tokio::time::sleep(200.millis()).await;
    assert!(matches!(permit.begin().await, Err(TakeError::Store(_))));
}

/// D5: without the store a process obeys the holds it knows, also those it told the store before.
#[tokio::test(start_paused = true)]
async fn d5_a_granted_permit_of_an_api_waits_for_a_known_hold_without_the_store() {
    for told in [true, false] {
        let (limiter, store, clock) = api_limiter("local");
        let mut permit = limiter.take("api").await.unwrap();
        store.away.store(!told, Ordering::SeqCst);
        assert_eq!(limiter.feedback("api", hold(5)).await.is_ok(), told);
        store.away.store(true, Ordering::SeqCst);
        tokio::time::sleep(200.millis()).await;
        permit.begin().await.unwrap();
        assert!((5_000..5_100).contains(&clock.millis()), "{told}: {}", clock.millis());
    }
}
