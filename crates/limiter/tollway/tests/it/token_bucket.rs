//! Every scenario of the document on a token bucket in a shared store, by its name, on the public API and on DynamoDB
//! (G1 to G12). Its limits are those of Gemini: 5 requests and 250,000 tokens a minute, 25 requests a day.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::heard::Heard;
use tollway::core::{Answer, Operation, Span, Store, Tallies, Timestamp, WhenStoreFails};
use tollway::metrics::{Figure, Sample};
use tollway::{Denied, Limiter, Policy, Taken};
use tollway_dynamodb::{Counters, DynamoStore};
use tollway_testkit::faults::{AwsFront, Fault, FaultProxy, Treatment};
use tollway_testkit::servers::DynamoServer;
use tollway_testkit::{ManualClock, wait_for};

const RPM: &str = "rpm: 5 requests / minute bucket";
const TPM: &str = "tpm: 250k tokens / minute bucket";
const RPD: &str = "rpd: 25 requests / day in America/Los_Angeles";

/// Nine in the morning in California, the first of January 2026.
const START: Timestamp = Timestamp::from_secs(1_767_286_800);

/// A DynamoDB with one table, a clock in the test's hand, and a front that counts and refuses.
struct Lab {
    server: DynamoServer,
    front: AwsFront,
    clock: Arc<ManualClock>,
    table: String,
}

/// A Lambda instance: a process of its own, as far as DynamoDB can tell.
struct Instance {
    limiter: Limiter,
    store: Arc<DynamoStore>,
}

impl Lab {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let server = DynamoServer::start();
        let front = AwsFront::to(server.addr());
        let table = format!("gemini-{}", COUNT.fetch_add(1, Ordering::SeqCst));
        Self { server, front, clock: Arc::new(ManualClock::at(START)), table }
    }

    fn instance(&self, limits: &[&str]) -> Instance {
        let url = format!("{}&deadline=20s", DynamoServer::url_through(self.front.addr(), &self.table));
        let store = Arc::new(DynamoStore::with_clock(&url, self.clock.clone()).unwrap());
        let builder = Limiter::builder().policy("gemini", limits.iter().copied()).unwrap();
        let builder = builder.api_policy("gemini").unwrap();
        let limiter = builder.store(store.clone()).clock(self.clock.clone()).metrics().build();
        Instance { limiter, store }
    }

    fn seconds_pass(&self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
    }
}

impl Instance {
    fn acquire(&self, tokens: u64) -> Result<(), Box<Denied>> {
        match self.limiter.try_take("gemini").cost("tokens", tokens).now().unwrap() {
            Taken::Granted(_) => Ok(()),
            Taken::Denied(denied) => Err(Box::new(denied)),
        }
    }

    /// What is left of each limit, in order.
    fn left(&self) -> Vec<u64> {
        let usage = self.limiter.usage("gemini").now().unwrap();
        usage.limits.iter().map(|limit| limit.remaining).collect()
    }

    fn counters(&self) -> &Counters {
        self.store.counters()
    }
}

fn limit_of(denied: &Denied) -> String {
    denied.limit().unwrap().name().to_string()
}

/// G1.
#[test]
fn acquire_tokens_from_distributed_bucket() {
    let lab = Lab::new();
    let (one, other) = (lab.instance(&[TPM]), lab.instance(&[TPM]));
    one.acquire(245_000).unwrap();
    assert_eq!(one.left(), [5_000]);
    one.acquire(3_750).unwrap();
    assert_eq!(other.left(), [1_250]);
    assert!(other.acquire(1_251).is_err(), "the 3,750 are taken");
    other.acquire(1_250).unwrap();
    assert_eq!(one.left(), [0]);
}

/// G2: the store says the exact time; a caller that waits 2, 4 and 8 seconds instead succeeds after the refill, too.
#[test]
fn handle_insufficient_tokens_with_wait_and_retry() {
    let lab = Lab::new();
    let one = lab.instance(&[TPM]);
    one.acquire(249_000).unwrap();
    let denied = one.acquire(3_750).unwrap_err();
    assert_eq!((limit_of(&denied).as_str(), one.left()), ("tpm", vec![1_000]), "nothing is debited");
    assert_eq!(denied.retry_after(), Duration::from_millis(660), "2,750 tokens at 250,000 a minute");
    lab.clock.advance(Span::from_micros(659_999));
    assert!(one.acquire(3_750).is_err());
    lab.clock.advance(Span::from_micros(1));
    one.acquire(3_750).unwrap();
    assert_eq!(one.left(), [0]);
    one.acquire(20_000).unwrap_err();
    let waits = [2, 4, 8].into_iter();
    let waited = waits.take_while(|wait| {
        lab.seconds_pass(*wait);
        one.acquire(20_000).is_err()
    });
    assert_eq!(waited.sum::<u64>(), 2, "denied after two seconds, granted after four more");
}

/// G3: both decide on the same state; the second write fails its condition, and is decided again.
#[test]
fn prevent_race_conditions_with_conditional_writes() {
    let lab = Lab::new();
    let (one, other) = (lab.instance(&[TPM]), lab.instance(&[TPM]));
    one.acquire(240_000).unwrap();
    assert_eq!(other.left(), [10_000], "both know the same state");
    one.acquire(6_000).unwrap();
    assert!(other.acquire(6_000).is_err(), "only one has them");
    assert_eq!(other.counters().conditional_failures.load(Ordering::SeqCst), 1);
    assert_eq!(other.counters().retries.load(Ordering::SeqCst), 1);
    assert_eq!(one.left(), [4_000]);
}

/// G4.
#[test]
fn refill_tokens_after_one_minute_elapsed() {
    let lab = Lab::new();
    let instances = [lab.instance(&[RPM, TPM]), lab.instance(&[RPM, TPM])];
    for take in 0..5 {
        instances[take % 2].acquire(50_000).unwrap();
    }
    assert_eq!(instances[0].left(), [0, 0]);
    lab.seconds_pass(60);
    for _ in 0..3 {
        assert!(instances.iter().all(|instance| instance.left() == [5, 250_000]), "credited once");
    }
    instances[0].acquire(1).unwrap();
    assert_eq!(instances[1].left(), [4, 249_999]);
}

/// G4: ours is the current time, always; the document has two rules.
#[test]
fn partial_refill_for_fractional_time_periods() {
    let lab = Lab::new();
    let one = lab.instance(&[RPM, TPM]);
    (0..5).for_each(|_| one.acquire(50_000).unwrap());
    lab.seconds_pass(30);
    assert_eq!(one.left(), [2, 125_000], "two requests and a half");
    one.acquire(25_000).unwrap();
    assert_eq!(one.left(), [1, 100_000]);
    lab.seconds_pass(6);
    assert_eq!(one.left(), [2, 125_000], "the half was kept");
}

/// G5: the document's scenario refuses request 25 after 24; a limit of 25 grants it, and refuses the 26th.
#[test]
fn daily_limit_tracking_and_reset() {
    let lab = Lab::new();
    let one = lab.instance(&["1000 tokens / minute bucket", RPD]);
    (0..24).for_each(|_| one.acquire(1).unwrap());
    one.acquire(1).unwrap();
    let denied = one.acquire(1).unwrap_err();
    let midnight = START.plus(Span::from_hours(15));
    assert_eq!((limit_of(&denied).as_str(), denied.retry_at()), ("rpd", midnight));
    assert_eq!(denied.retry_at().to_string(), "2026-01-02T08:00:00Z", "midnight in California");
    lab.clock.set(Timestamp::from_micros(midnight.as_micros() - 1));
    assert!(one.acquire(1).is_err());
    lab.clock.set(midnight);
    assert_eq!(one.left()[1], 25);
    one.acquire(1).unwrap();
}

/// G6.
#[test]
fn create_rate_limit_bucket_on_first_use() {
    let lab = Lab::new();
    let instances = [lab.instance(&[RPM, TPM, RPD]), lab.instance(&[RPM, TPM, RPD])];
    assert!(instances.iter().all(|instance| instance.left() == [5, 250_000, 25]));
    // Both know that there is none: the second write finds out that it is no longer so.
    instances[0].acquire(3_750).unwrap();
    instances[1].acquire(3_750).unwrap();
    assert_eq!(instances[1].counters().conditional_failures.load(Ordering::SeqCst), 1);
    assert_eq!(instances[0].left(), [3, 242_500, 23]);
}

/// G3.
#[test]
fn update_bucket_state_atomically() {
    let lab = Lab::new();
    let instances = [(); 4].map(|()| lab.instance(&[TPM]));
    instances[0].acquire(240_000).unwrap();
    instances[1].acquire(3_750).unwrap();
    assert_eq!(instances[2].left(), [6_250], "10,000 - 3,750");
    let granted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for instance in &instances {
            scope.spawn(|| {
                let acquired = (0..25).filter(|_| instance.acquire(125).is_ok()).count();
                granted.fetch_add(acquired as u64, Ordering::SeqCst);
            });
        }
    });
    assert_eq!((granted.into_inner(), instances[3].left()), (50, vec![0]), "50 times 125 is 6,250");
}

/// G6: what DynamoDB does with `ttl` is its own; when it has deleted the item, the next use makes a new one.
#[test]
fn clean_up_expired_rate_limit_buckets() {
    let lab = Lab::new();
    let one = lab.instance(&[RPM, TPM]);
    one.acquire(3_750).unwrap();
    let ttl: u64 = lab.server.only_item(&lab.table)["ttl"]["N"].as_str().unwrap().parse().unwrap();
    assert_eq!(Timestamp::from_secs(ttl), START.plus(Span::from_days(7)));
    lab.clock.set(Timestamp::from_secs(ttl + 1));
    lab.server.delete_all(&lab.table);
    assert_eq!(one.left(), [5, 250_000]);
    one.acquire(3_750).unwrap();
    assert_eq!(one.left(), [4, 246_250]);
}

/// A limiter by the process's own clock, with a policy that limits itself while the store does not answer.
fn with_fallback(addr: std::net::SocketAddr, table: &str) -> Limiter {
    let policy = Policy::new("gemini", ["100 requests / day from first call"]).unwrap();
    let builder =
        Limiter::builder().with_policy(policy.with_when_store_fails(WhenStoreFails::Local)).unwrap();
    let url = format!("{}&deadline=2s", DynamoServer::url_through(addr, table));
    builder.store_at(&url.parse().unwrap()).unwrap().metrics().build()
}

/// Takes until the store decides, on a machine that may be busy; how often it did.
fn take_by_store(limiter: &Limiter) -> u64 {
    (0..10).map(|_| u64::from(!limiter.try_take("gemini").now().unwrap().granted().unwrap().degraded())).sum()
}

fn until(what: &str, reached: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never {what}");
}

fn number(limiter: &Limiter, name: &str, labels: &[&str]) -> Option<u64> {
    let samples = wait_for(limiter.samples());
    let sample = samples.into_iter().find(|sample| sample.metric.name == name && sample.labels == labels)?;
    Some(match sample.figure {
        Figure::Number(number) | Figure::Millionths(number) => number,
        Figure::Latencies(latencies) => latencies.counts.iter().sum(),
        Figure::Tallies(tallies) => tallies.counts.iter().sum(),
    })
}

/// G7: three failures, then a tenth of the limit for each process, until DynamoDB is back.
#[test]
fn fallback_to_per_instance_limiting_on_dynamodb_error() {
    let lab = Lab::new();
    let proxy = FaultProxy::to(lab.server.addr());
    let limiter = with_fallback(proxy.addr(), &lab.table);
    until("reached", || limiter.usage("gemini").now().is_ok());
    let by_store = take_by_store(&limiter);
    proxy.set(Fault::Reset);
    let local = (0..20).filter_map(|_| limiter.try_take("gemini").now().unwrap().granted());
    let local = local.map(|permit| assert!(permit.degraded())).count() as u64;
    assert_eq!(10 - by_store + local, 9, "a tenth of the ninety that were left, whenever it was granted");
    let status = limiter.store_status();
    assert_eq!((status.fallbacks, status.degraded_since.is_some()), (1, true));
    assert_eq!(number(&limiter, "RateLimiterFallbackActivated", &[]), Some(1));
    proxy.clear();
    until("returned", || limiter.store_status().degraded_since.is_none());
    let spent = 10 + local;
    until("debited what was spent", || limiter.usage("gemini").now().unwrap().limits[0].used == spent);
    assert!(!limiter.try_take("gemini").now().unwrap().granted().unwrap().degraded());
}

/// G8: at most five retries, then as above, at once.
#[test]
fn handle_dynamodb_throttling() {
    let lab = Lab::new();
    let limiter = with_fallback(lab.front.addr(), &lab.table);
    until("reached", || limiter.usage("gemini").now().is_ok());
    take_by_store(&limiter);
    until("settled", || limiter.store_status().degraded_since.is_none());
    lab.front.next(3, "PutItem", Treatment::Throttled);
    assert!(!limiter.try_take("gemini").now().unwrap().granted().unwrap().degraded(), "retried");
    let (before, fallbacks) = (lab.front.count("PutItem"), limiter.store_status().fallbacks);
    lab.front.always("PutItem", Treatment::Throttled);
    let taken = limiter.try_take("gemini").now().unwrap().granted().unwrap();
    assert!(taken.degraded());
    let retries = lab.front.count("PutItem") - before - 1;
    assert!((1..=5).contains(&retries), "{retries}");
    let status = limiter.store_status();
    assert_eq!(status.fallbacks, fallbacks + 1, "one take that was throttled five times is enough");
    assert!(status.last_error.unwrap().contains("throttled"));
    assert!(number(&limiter, "tollway_store_events_total", &["throttles"]).unwrap() >= 4);
    lab.front.clear();
    until("returned", || limiter.store_status().degraded_since.is_none());
}

/// G9.
#[test]
fn recover_from_transient_dynamodb_errors() {
    let lab = Lab::new();
    let one = lab.instance(&[TPM]);
    one.acquire(10_000).unwrap();
    for said in [Treatment::Unavailable, Treatment::FailedAfterwards, Treatment::Lost] {
        let before = one.left()[0];
        lab.front.next(2, "PutItem", said);
        one.acquire(3_750).unwrap();
        assert_eq!(one.left(), [before - 3_750], "{said:?}: none lost, none spent twice");
    }
    assert_eq!(one.limiter.store_status().degraded_decisions, 0);
}

/// G10: by limit, under the documented names.
#[test]
fn emit_rate_limit_compliance_metrics() {
    let lab = Lab::new();
    let one = lab.instance(&[RPM, TPM, RPD]);
    (0..3).for_each(|_| one.acquire(3_750).unwrap());
    one.acquire(240_000).unwrap_err();
    for (limit, acquired, available, failures) in
        [("rpm", 3, 2, 0), ("tpm", 11_250, 238_750, 1), ("rpd", 3, 22, 0)]
    {
        let figure = |name: &str| number(&one.limiter, name, &["gemini", limit]);
        assert_eq!(figure("RateLimiterTokensAcquired"), Some(acquired), "{limit}");
        assert_eq!(figure("RateLimiterTokensAvailable"), Some(available), "{limit}");
        assert_eq!(figure("RateLimiterAcquisitionFailures"), Some(failures), "{limit}");
        assert_eq!(figure("RateLimiterAcquisitionLatency"), Some(4), "{limit}");
    }
}

/// G11.
#[test]
fn alert_on_rate_limit_violations() {
    let lab = Lab::new();
    let one = lab.instance(&[RPM, TPM]);
    let other = one.limiter.try_take("gemini").cost("tokens", 100).now().unwrap().granted().unwrap();
    let refused = one.limiter.try_take("gemini").cost("tokens", 3_750).now().unwrap().granted().unwrap();
    let incident = wait_for(refused.refused_by_vendor("429 RESOURCE_EXHAUSTED")).remove(0);
    assert_eq!((incident.at, incident.in_flight), (START, 2));
    assert_eq!((incident.limits[0].used, incident.limits[1].used), (2, 3_850));
    assert_eq!(incident.recent.len(), 2);
    assert_eq!(one.limiter.incidents(), [incident], "kept for the post-mortem");
    drop(other);
}

/// Of the calls of an instance, in how many it happened how often: never, once, twice ...
fn tallies(instance: &Instance, event: &str) -> Tallies {
    let samples = wait_for(instance.limiter.samples());
    let named = |sample: &Sample| sample.metric.name == "tollway_store_per_call" && sample.labels == [event];
    match samples.into_iter().find(named).unwrap().figure {
        Figure::Tallies(tallies) => *tallies,
        other => panic!("{other:?}"),
    }
}

/// G10, G12: what the bench prints; how often a call lost a race and was decided again, as distributions.
#[test]
fn track_distributed_coordinator_performance() {
    let lab = Lab::new();
    let (one, other) = (lab.instance(&[TPM]), lab.instance(&[TPM]));
    for _ in 0..5 {
        one.acquire(100).unwrap();
        other.acquire(100).unwrap();
    }
    for instance in [&one, &other] {
        let event = |name: &str| number(&instance.limiter, "tollway_store_events_total", &[name]).unwrap();
        let lost = event("conditional_failures");
        assert!(lost >= 1, "the other's write came between");
        assert_eq!((event("retries"), event("writes")), (lost, 5 + lost));
        for event in ["conditional_failures", "retries"] {
            let Tallies { counts, sum } = tallies(instance, event);
            assert_eq!(sum, lost, "{event}");
            assert!(counts[0] >= 1 && counts[1..].iter().sum::<u64>() >= 1, "{event}: {counts:?}");
        }
        let latencies = |operation: &str| {
            number(&instance.limiter, "tollway_store_latency_seconds", &[operation]).unwrap()
        };
        assert_eq!(latencies("write"), 5 + lost);
        assert!(latencies("read") >= 1);
    }
}

/// DynamoDB on a day on which every call takes so long, by the test's clock.
struct Slow {
    store: Arc<DynamoStore>,
    clock: Arc<ManualClock>,
    millis: AtomicU64,
}

impl Store for Slow {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let (answer, clock) = (self.store.apply(batch), Arc::clone(&self.clock));
        let took = Span::from_millis(self.millis.load(Ordering::SeqCst));
        Answer::Later(Box::pin(async move {
            let result = answer.await;
            clock.advance(took);
            result
        }))
    }
}

/// G12: the alarm on acquisitions above 50 ms, by the minute.
#[test]
fn slow_acquisitions_raise_an_alarm() {
    let lab = Lab::new();
    let store = lab.instance(&[TPM]).store;
    let slow = Arc::new(Slow { store, clock: lab.clock.clone(), millis: AtomicU64::new(51) });
    let builder = Limiter::builder().policy("gemini", [TPM]).unwrap();
    let limiter = builder.store(slow.clone()).clock(lab.clock.clone()).metrics().build();
    let is_slow = || number(&limiter, "tollway_acquisition_slow", &[]);
    let minute = || {
        (0..10).for_each(|_| drop(limiter.try_take("gemini").cost("tokens", 1).now().unwrap()));
        lab.seconds_pass(60);
    };
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), || {
        assert_eq!(is_slow(), Some(0));
        minute();
        assert_eq!(is_slow(), Some(1));
        minute();
        assert_eq!((is_slow(), heard.count("RateLimiterAcquisitionSlow")), (Some(1), 1), "logged once");
        slow.millis.store(50, Ordering::SeqCst);
        minute();
        assert_eq!(is_slow(), Some(0));
    });
}

/// G8: the alarm on throttling that lasts.
#[test]
fn throttling_that_lasts_raises_an_alarm() {
    let lab = Lab::new();
    let one = lab.instance(&[TPM]);
    one.acquire(100).unwrap();
    let throttled = || number(&one.limiter, "tollway_store_throttled", &[]);
    lab.front.always("Item", Treatment::Throttled);
    one.acquire(100).unwrap();
    assert_eq!((one.limiter.store_status().fallbacks, throttled()), (1, Some(0)), "it may pass");
    lab.seconds_pass(31);
    // Probes meet the same.
    until("raised", || throttled() == Some(1));
    lab.front.clear();
    until("returned", || one.limiter.store_status().degraded_since.is_none());
    lab.seconds_pass(61);
    assert_eq!(throttled(), Some(0), "it is over");
}
