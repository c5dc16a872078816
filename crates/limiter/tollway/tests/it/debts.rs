//! Grants made without the store are debited at the end of a limiter, on any executor, and not twice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tollway::core::bounds::REFUNDS_MAX;
use tollway::core::{Action, Answer, Booking, Charge, Fault, Operation, PermitId, Retry};
use tollway::{Limiter, Policy, Store, StoreError, Subject, Timestamp};
use tollway_memory::MemoryStore;
use tollway_testkit::ManualClock;

const START: Timestamp = Timestamp::from_secs(6_001_200);

/// What happens to an operation.
enum Fate {
    Applied,
    /// It does not reach the store.
    Fails(Fault),
    /// It is applied, and its answer is lost.
    AnswerLost,
}

type FateOf = Box<dyn Fn(&Operation) -> Fate + Send>;

/// A store in memory whose operations have a fate.
struct Faulty {
    memory: Arc<MemoryStore>,
    fate: Mutex<FateOf>,
}

impl Faulty {
    fn set_fate(&self, fate: impl Fn(&Operation) -> Fate + Send + 'static) {
        *self.fate.lock().unwrap() = Box::new(fate);
    }
}

impl Store for Faulty {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let fails = |fault, retry| Err(StoreError { fault, retry, message: "no answer".to_owned() });
        match (self.fate.lock().unwrap())(&batch[0]) {
            Fate::Applied => self.memory.apply(batch),
            Fate::Fails(fault) => Answer::now(fails(fault, Retry::Safe)),
            Fate::AnswerLost => {
                drop(self.memory.apply(batch));
                Answer::now(fails(Fault::Network, Retry::Unclear))
            }
        }
    }
}

/// A limiter of ten an hour whose store does not answer yet, and another one that reaches the same store.
fn limiters() -> (Limiter, Arc<Faulty>, Limiter) {
    let clock = Arc::new(ManualClock::at(START));
    let memory = Arc::new(MemoryStore::new(clock.clone()));
    let fate: FateOf = Box::new(|_| Fate::Fails(Fault::Network));
    let store = Arc::new(Faulty { memory: memory.clone(), fate: Mutex::new(fate) });
    let limiter = |store: Arc<dyn Store>| {
        Limiter::builder().with_policy(policy()).unwrap().store(store).clock(clock.clone()).build()
    };
    (limiter(store.clone()), store, limiter(memory))
}

fn policy() -> Policy {
    Policy::new("api", ["10 / hour"]).unwrap().with_local_share("1/1".parse().unwrap())
}

fn grants(limiter: &Limiter, takes: usize) -> usize {
    (0..takes).filter(|_| limiter.try_take("api").now().unwrap().is_granted()).count()
}

fn used(limiter: &Limiter) -> u64 {
    limiter.usage("api").now().unwrap().limits[0].used
}

/// G7: a program without a runtime closes a limiter that has something to tell.
#[test]
fn g7_close_works_on_a_thread_without_a_runtime() {
    let (limiter, store, other) = limiters();
    assert_eq!(grants(&limiter, 2), 2);
    store.set_fate(|_| Fate::Applied);
    limiter.close().now().unwrap();
    assert_eq!(used(&other), 2);
}

struct Unpark(std::thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is; it has no timers.
fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// G7: the executor need not be tokio's.
#[test]
fn g7_close_works_on_any_executor() {
    let (limiter, store, other) = limiters();
    assert_eq!(grants(&limiter, 2), 2);
    store.set_fate(|_| Fate::Applied);
    block_on(limiter.close()).unwrap();
    assert_eq!(used(&other), 2);
}

/// G7: a busy account does not end the attempts: it may be free a moment later.
#[test]
fn g7_close_tries_again_while_an_account_is_busy() {
    let (limiter, store, other) = limiters();
    assert_eq!(grants(&limiter, 2), 2);
    let busy = AtomicU64::new(3);
    let one_less = |left: u64| left.checked_sub(1);
    store.set_fate(move |_| match busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
        Ok(_) => Fate::Fails(Fault::Account),
        Err(_) => Fate::Applied,
    });
    limiter.close().now().unwrap();
    assert_eq!(used(&other), 2);
}

/// Has the account remember as many refunds as it can.
fn fill_memory_of_refunds(store: &MemoryStore) {
    let charge = Charge::new(Arc::new(policy()), Subject::SHARED);
    let nothing = policy().cost([("requests", 0)]).unwrap();
    for permit in 0..REFUNDS_MAX {
        let permit = PermitId(permit as u128);
        let booking = Booking { permit, granted_at: START, at: START, good_until: Timestamp::MAX };
        let settle = Action::Settle { booking, actual: [nothing.clone()].into(), remember: true };
        let charge = charge.clone().with_cost(nothing.clone());
        assert!(matches!(store.apply(&[Operation::one(charge, settle)]), Answer::Now(Some(Ok(_)))));
    }
}

/// G7: an account that remembers no more refunds is debited without memory, and then never again.
#[test]
fn g7_a_debt_that_is_not_remembered_is_debited_once() {
    let (limiter, store, other) = limiters();
    assert_eq!(grants(&limiter, 2), 2);
    assert_eq!(grants(&other, 9), 9, "so that the debt has no room");
    fill_memory_of_refunds(&store.memory);
    store.set_fate(|operation| match operation.action {
        Action::Settle { remember: false, .. } => Fate::AnswerLost,
        _ => Fate::Applied,
    });
    let _ = limiter.close().now();
    store.set_fate(|_| Fate::Applied);
    limiter.close().now().unwrap();
    assert_eq!(used(&other), 11);
}

/// G7: what did not reach the store stays owed.
#[test]
fn g7_a_debt_that_is_not_remembered_is_sent_again_if_it_was_not_applied() {
    let (limiter, store, other) = limiters();
    assert_eq!(grants(&limiter, 2), 2);
    assert_eq!(grants(&other, 9), 9, "so that the debt has no room");
    fill_memory_of_refunds(&store.memory);
    store.set_fate(|operation| match operation.action {
        Action::Settle { remember: false, .. } => Fate::Fails(Fault::Network),
        _ => Fate::Applied,
    });
    assert!(limiter.close().now().is_err());
    store.set_fate(|_| Fate::Applied);
    limiter.close().now().unwrap();
    assert_eq!(used(&other), 11);
}
