//! What a careful reader found, kept found: leases and reloads, debts to a store, slots, resets and lowered rates.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollway::core::{Action, Answer, Fault, Lease, Operation, Retry};
use tollway::{Limiter, Policy, Span, Store, StoreError, Timestamp};
use tollway_memory::{FileStore, MemoryStore};
use tollway_testkit::ManualClock;

struct NoSettings(FileStore);
impl Store for NoSettings {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.0.apply(batch)
    }
}
fn begin() -> (tempfile::TempDir, Arc<ManualClock>) {
    (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(Timestamp::from_secs(6_001_200))))
}
fn policy(limits: &[&str]) -> Policy {
    Policy::new("api", limits.iter().copied()).unwrap().with_lease(Lease::On)
}
fn process(path: &Path, clock: &Arc<ManualClock>, policy: Policy) -> Limiter {
    let store = Arc::new(NoSettings(FileStore::open(path, clock.clone()).unwrap()));
    Limiter::builder().with_policy(policy).unwrap().store(store).clock(clock.clone()).build()
}
fn grants(limiter: &Limiter, most: usize) -> usize {
    (0..most).take_while(|_| limiter.try_take("api").now().unwrap().is_granted()).count()
}

#[test]
fn a_lease_is_settled_under_the_policy_it_was_taken_under() {
    let (folder, clock) = begin();
    let path = folder.path().join("state");
    let leasing = process(&path, &clock, policy(&["1000 / minute"]));
    assert_eq!(grants(&leasing, 80), 80); // a lease of some dozens is out
    let hourly = || policy(&["100 / hour"]);
    leasing.replace_policies([hourly()]).unwrap();
    let other = process(&path, &clock, hourly().with_lease(Lease::Off));
    assert_eq!(grants(&other, 1_000), 100);
    clock.advance(Span::from_secs(2));
    std::thread::sleep(Duration::from_millis(900));
    let more = grants(&other, 1_000);
    assert_eq!(more, 0, "granted beyond 100 / hour, all under the new policy");
}

#[test]
fn a_lease_is_not_spent_in_another_unit() {
    let (folder, clock) = begin();
    let path = folder.path().join("state");
    let leasing = process(&path, &clock, policy(&["1M tokens / minute"]));
    for _ in 0..40 {
        assert!(leasing.try_take("api").cost("tokens", 1_000).now().unwrap().is_granted());
    }
    leasing.replace_policies([policy(&["10 requests / minute"])]).unwrap();
    let granted = grants(&leasing, 5_000);
    assert_eq!(granted, 10, "of 10 requests / minute");
}

#[test]
fn units_in_another_order_are_not_mixed_up() {
    let (folder, clock) = begin();
    let path = folder.path().join("state");
    let leasing = process(&path, &clock, policy(&["100 requests / minute", "1M tokens / minute"]));
    let other = process(
        &path,
        &clock,
        policy(&["100 requests / minute", "1M tokens / minute"]).with_lease(Lease::Off),
    );
    for _ in 0..12 {
        assert!(leasing.try_take("api").cost("tokens", 9).now().unwrap().is_granted());
    }
    let first = grants(&other, 1_000);
    leasing.replace_policies([policy(&["1M tokens / minute", "100 requests / minute"])]).unwrap();
    clock.advance(Span::from_secs(2));
    std::thread::sleep(Duration::from_millis(900));
    let more = grants(&other, 1_000);
    assert!(12 + first + more <= 100, "12 + {first} + {more} of 100 requests / minute");
}

/// A store with faults by rule.
struct Rule {
    memory: MemoryStore,
    fails: Box<dyn Fn(&Operation) -> bool + Send + Sync>,
    /// While set, takes wait.
    gate: Arc<AtomicBool>,
}
impl Store for Rule {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if (self.fails)(&batch[0]) {
            let message = "fails".to_owned();
            return Answer::now(Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message }));
        }
        let answer = self.memory.apply(batch);
        let gate = self.gate.clone();
        if !matches!(batch[0].action, Action::Take(_)) {
            return answer;
        }
        Answer::Later(Box::pin(async move {
            while gate.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            answer.await
        }))
    }
}
fn ruled(
    limits: &[&str],
    fails: impl Fn(&Operation) -> bool + Send + Sync + 'static,
) -> (Limiter, Arc<Rule>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_001_200)));
    let store = Arc::new(Rule {
        memory: MemoryStore::new(clock.clone()),
        fails: Box::new(fails),
        gate: Arc::default(),
    });
    let policy = Policy::new("api", limits.iter().copied()).unwrap();
    (Limiter::builder().with_policy(policy).unwrap().store(store.clone()).clock(clock).build(), store)
}
fn wait_until(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn grants_made_during_settling_are_settled_too() {
    let away = Arc::new(AtomicBool::new(true));
    let is_away = away.clone();
    let (limiter, store) = ruled(&["200 / hour"], move |_| is_away.load(Ordering::SeqCst));
    assert_eq!(grants(&limiter, 5), 5);
    store.gate.store(true, Ordering::SeqCst);
    away.store(false, Ordering::SeqCst);
    // The probe has been answered, and the debit is on its way.
    assert!(wait_until(|| store.memory.stats().accounts == 1));
    assert_eq!(grants(&limiter, 10), 10);
    store.gate.store(false, Ordering::SeqCst);
    assert!(wait_until(|| limiter.store_status().degraded_since.is_none()));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(limiter.usage("api").now().unwrap().limits[0].used, 15);
}

#[test]
fn grants_made_for_single_failures_are_settled() {
    let count = AtomicU64::new(0);
    let (limiter, _store) = ruled(&["100 / hour"], move |operation| {
        matches!(operation.action, Action::Take(_)) && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(3)
    });
    let granted = grants(&limiter, 1_000);
    std::thread::sleep(Duration::from_millis(1500));
    // From here on only the store decides.
    let mut all = granted;
    for _ in 0..1_000 {
        if limiter.try_take("api").now().unwrap().is_granted() {
            all += 1;
        }
    }
    assert!(all <= 100, "{all} of 100 / hour by one process, the breaker never open");
}

/// Two tasks may want to settle: one after a single failure, one before the breaker closes.
#[test]
fn debts_are_debited_once_by_two_settling_tasks() {
    let away = Arc::new(AtomicBool::new(true));
    let is_away = away.clone();
    let (limiter, store) = ruled(&["200 / hour"], move |_| is_away.load(Ordering::SeqCst));
    assert_eq!(grants(&limiter, 1), 1);
    away.store(false, Ordering::SeqCst);
    assert_eq!(
        grants(&limiter, 1),
        1,
        "answered by the store, which is to be told of the first one in a second"
    );
    away.store(true, Ordering::SeqCst);
    assert_eq!(grants(&limiter, 3), 3);
    store.gate.store(true, Ordering::SeqCst);
    away.store(false, Ordering::SeqCst);
    // By then both have begun.
    std::thread::sleep(Duration::from_millis(1500));
    store.gate.store(false, Ordering::SeqCst);
    assert!(wait_until(|| limiter.store_status().degraded_since.is_none()));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(limiter.usage("api").now().unwrap().limits[0].used, 5);
}

/// Loses the answer to the first settlement, which was applied.
struct LosesSettlement {
    memory: Arc<MemoryStore>,
    away: AtomicBool,
    lost: AtomicBool,
}
impl Store for LosesSettlement {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let settles = matches!(batch[0].action, Action::Settle { .. });
        let away = self.away.load(Ordering::SeqCst);
        if !away {
            let answer = self.memory.apply(batch);
            if !settles || self.lost.swap(true, Ordering::SeqCst) {
                return answer;
            }
        }
        let (message, retry) = ("no answer".to_owned(), if settles { Retry::Unclear } else { Retry::Safe });
        Answer::now(Err(StoreError { fault: Fault::Network, retry, message }))
    }
}

#[test]
fn a_debt_whose_answer_was_lost_is_debited_once() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_001_200)));
    let memory = Arc::new(MemoryStore::new(clock.clone()));
    let (away, lost) = (AtomicBool::new(true), AtomicBool::new(false));
    let store = Arc::new(LosesSettlement { memory: memory.clone(), away, lost });
    let limiter = |store: Arc<dyn Store>| {
        let policy = Policy::new("api", ["10 / hour"]).unwrap().with_local_share("1/1".parse().unwrap());
        Limiter::builder().with_policy(policy).unwrap().store(store).clock(clock.clone()).build()
    };
    let (limiter, other) = (limiter(store.clone()), limiter(memory));
    assert_eq!(grants(&limiter, 4), 4);
    assert_eq!(grants(&other, 8), 8, "so that the debt has no room");
    store.away.store(false, Ordering::SeqCst);
    assert!(wait_until(|| limiter.store_status().degraded_since.is_none()));
    assert!(store.lost.load(Ordering::SeqCst));
    assert_eq!(other.usage("api").now().unwrap().limits[0].used, 12);
}

fn good_one_is_stored(limiter: &Limiter) -> bool {
    let taken = limiter.try_take("api").subject("good").now().unwrap();
    taken.granted().is_some_and(|permit| !permit.degraded())
}

#[test]
fn one_unusable_subject_does_not_keep_the_breaker_open() {
    let (limiter, _store) =
        ruled(&["100 / hour"], |operation| operation.charges[0].subject.as_str() == "bad");
    for _ in 0..3 {
        let _ = limiter.try_take("api").subject("bad").now();
    }
    assert!(wait_until(|| good_one_is_stored(&limiter)));
}

#[test]
fn a_debt_that_cannot_be_settled_does_not_keep_the_breaker_open() {
    let (limiter, _store) = ruled(&["100 / hour"], |operation| {
        operation.charges[0].subject.as_str().starts_with("new") && !matches!(operation.action, Action::Peek)
    });
    for n in 0..3 {
        let _ = limiter.try_take("api").subject(&format!("new{n}")).now();
    }
    assert!(wait_until(|| good_one_is_stored(&limiter)));
}

#[test]
fn debts_are_debited_even_if_all_slots_are_held() {
    let away = Arc::new(AtomicBool::new(false));
    let is_away = away.clone();
    let (limiter, _store) =
        ruled(&["1 concurrent", "100 tokens / hour"], move |_| is_away.load(Ordering::SeqCst));
    let held = limiter.try_take("api").cost("tokens", 1).now().unwrap().granted().unwrap();
    away.store(true, Ordering::SeqCst);
    let mut granted = 0;
    for _ in 0..6 {
        if let Some(permit) = limiter.try_take("api").cost("tokens", 3).now().unwrap().granted() {
            granted += 3;
            assert!(permit.degraded());
        }
    }
    away.store(false, Ordering::SeqCst);
    assert!(wait_until(|| limiter.store_status().degraded_since.is_none()));
    let used = limiter.usage("api").now().unwrap().limits[1].used;
    drop(held);
    assert_eq!(used, 1 + granted);
}

#[test]
fn a_lease_ends_with_a_reset() {
    let (folder, clock) = begin();
    let limiter = process(&folder.path().join("state"), &clock, policy(&["1000 / minute"]));
    assert_eq!(grants(&limiter, 80), 80);
    limiter.reset("api").now().unwrap();
    let granted = grants(&limiter, 5_000);
    assert_eq!(granted, 1_000, "since the reset");
}

#[test]
fn a_lowered_bucket_is_not_forgotten_early() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(6_001_200)));
    let limiter = Limiter::builder()
        .policy("api", ["100 / minute bucket"])
        .unwrap()
        .policy("other", ["1 / second"])
        .unwrap()
        .clock(clock.clone())
        .build();
    let take = || {
        (0..1_000).take_while(|_| limiter.try_take("api").subject("s").now().unwrap().is_granted()).count()
    };
    assert_eq!(take(), 100);
    limiter.set_limit("api", "requests_per_minute", "1 / minute bucket burst 100").now().unwrap();
    assert_eq!(take(), 0);
    clock.advance(Span::from_secs(75));
    // Other takes come, and expired accounts are swept.
    for n in 0..20_000 {
        assert!(limiter.try_take("other").subject(&format!("o{n}")).now().unwrap().is_granted());
    }
    let more = take();
    assert!(more <= 2, "{more} after 75 seconds of 1 a minute, all 100 of the burst were used");
}
