//! Threads on few accounts: their calls are recorded and checked afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use tollway_core::{
    Action, Algorithm, Booking, CallId, Charge, Limit, Operation, Outcome, Policy, Span, Store, Subject,
    TakeOutcome, Terms, Timestamp,
};

use super::lab::{at, fresh_name, fresh_permit};
use super::{ConformanceReport, Failure, attempt};
use crate::history::{History, HistoryCall, Rule, Stretch, Told};
use crate::{Random, Rig, wait_for};

/// The limits under test, and the largest amount of a take.
const TARGETS: [(&[&str], u64); 8] = [
    (&["50 / minute"], 1),
    (&["40 / second bucket burst 25"], 3),
    (&["7 concurrent"], 1),
    (&["60 / second", "90 / minute"], 2),
    (&["45 / minute", "200 / hour bucket burst 70"], 2),
    (&["9 / second paced"], 1),
    (&["20 / second sliding"], 2),
    (&["20 / second from first call"], 2),
];

/// What the clock does in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It stands still.
    Still,
    /// It steps while threads take.
    Steps,
    /// It steps, and is ahead of or behind the harness's time.
    Strays,
}

const PACES: [Pace; 3] = [Pace::Still, Pace::Steps, Pace::Strays];

/// How far the store's clock strays, and its sequence of errors.
const CLOCK_ERROR: Span = Span::from_millis(40);
const STRAYS_MILLIS: [i64; 5] = [0, 40, -40, 25, -10];

const THREADS: [u64; 4] = [2, 4, 8, 16];

/// How many calls each thread makes in a round.
const CALLS: u64 = 24;

/// Runs `count` rounds of threads on each kind of limit, with a clock that stands still, one that steps, and one that strays.
pub fn rounds(rig: &dyn Rig, count: u64) -> Result<ConformanceReport, Failure> {
    let mut report = ConformanceReport::default();
    for round in 0..count {
        for (limits, most) in TARGETS {
            let threads = THREADS[report.rounds as usize % THREADS.len()];
            let pace = PACES[round as usize % PACES.len()];
            let name = format!("round {round} of {threads} threads on {limits:?}, clock: {pace:?}");
            report.calls += attempt(&name, || Round::new(rig, limits, most, pace).run(threads))?;
            report.rounds += 1;
        }
    }
    Ok(report)
}

/// The harness's time. The store's clock is set between its two readings, so it lies between them, or strays by at most its
/// error.
struct Time<'r> {
    rig: &'r dyn Rig,
    surely: AtomicU64,
    at_most: AtomicU64,
}

impl Time<'_> {
    fn set(&self, now: Timestamp, strays_millis: i64) {
        let stray = Span::from_millis(strays_millis.unsigned_abs());
        self.at_most.store(now.as_micros(), Ordering::SeqCst);
        self.rig.set_time(if strays_millis < 0 { now.minus(stray) } else { now.plus(stray) });
        self.surely.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Runs `act` and measures when: not before the first reading, not after the second.
    fn measure<T>(&self, act: impl FnOnce() -> T) -> (T, Stretch) {
        let invoke = Timestamp::from_micros(self.surely.load(Ordering::SeqCst));
        let done = act();
        (done, Stretch { invoke, complete: Timestamp::from_micros(self.at_most.load(Ordering::SeqCst)) })
    }
}

struct Round<'r> {
    time: Time<'r>,
    /// Fetched from the rig once: all threads must use the same store.
    store: Arc<dyn Store>,
    policy: Arc<Policy>,
    most: u64,
    pace: Pace,
}

impl<'r> Round<'r> {
    fn new(rig: &'r dyn Rig, limits: &[&str], most: u64, pace: Pace) -> Self {
        let policy = Policy::new(&fresh_name(), limits.iter().copied()).expect("the targets are right");
        let time = Time { rig, surely: AtomicU64::new(0), at_most: AtomicU64::new(0) };
        let store = rig.store();
        time.set(at(0), 0);
        Self { time, store, policy: Arc::new(policy), most, pace }
    }

    /// Returns the number of checked calls.
    fn run(&self, threads: u64) -> u64 {
        let barrier = Barrier::new(threads as usize);
        let clock_error = if self.pace == Pace::Strays { CLOCK_ERROR } else { Span::ZERO };
        let mut history = History { rules: self.rules(), clock_error, calls: Vec::new() };
        std::thread::scope(|scope| {
            let hammer = |thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    self.hammer(thread)
                })
            };
            let workers: Vec<_> = (0..threads).map(hammer).collect();
            for worker in workers {
                history.calls.extend(worker.join().expect("no thread panics"));
            }
        });
        if let Err(fault) = history.check() {
            panic!("{}: {}", fault.rule, fault.detail);
        }
        self.denials_took_nothing(&history);
        history.calls.len() as u64
    }

    /// One thread: takes, some with ids that other threads use too, some returned.
    fn hammer(&self, thread: u64) -> Vec<HistoryCall> {
        let mut random = Random::new(thread);
        let mut calls = Vec::new();
        for number in 0..CALLS {
            if self.pace != Pace::Still && thread == 0 {
                let strays = if self.pace == Pace::Strays { STRAYS_MILLIS[number as usize % 5] } else { 0 };
                self.time.set(at(0).plus(Span::from_millis(number * 130)), strays);
            }
            let key = random.below(2);
            let id = random.percent(20).then(|| key * 1_000 + number);
            let amount = if id.is_some() { 1 } else { random.between(1, self.most) };
            calls.push(self.call(key, id, amount, random.percent(15)));
        }
        calls
    }

    fn call(&self, key: u64, id: Option<u64>, amount: u64, gives_back: bool) -> HistoryCall {
        let charge = self.charge(key, amount);
        let call = id.map(|id| CallId::new(&id.to_string()).expect("a number is an id"));
        let terms = Terms {
            permit: fresh_permit(),
            max_wait: Span::ZERO,
            call,
            readings: true,
            new_accounts: tollway_core::NewAccounts::Make,
        };
        let (outcome, when) = self.apply(Operation::one(charge.clone(), Action::Take(terms)));
        let (told, grant) = match outcome {
            Outcome::Decided(decision) => match decision.outcome {
                TakeOutcome::Granted(_) if decision.repeated => (Told::Repeated, None),
                TakeOutcome::Granted(booking) => {
                    assert!(!decision.over, "A-1: the engine itself says that it is over: {decision:?}");
                    (Told::Admitted, Some(booking))
                }
                TakeOutcome::Denied(denial) => {
                    assert!(denial.retry_at > decision.now, "A-5: a denial without a wait: {decision:?}");
                    (Told::Denied, None)
                }
            },
            other => panic!("a take is answered with {other:?}"),
        };
        let costs = self.policy.amounts(charge.cost()).map(|(_, amount)| amount).collect();
        // Only calls without an id are returned: a repeated one would get a permit that is gone.
        let back =
            grant.filter(|_| gives_back && id.is_none()).and_then(|grant| self.give_back(charge, grant));
        HistoryCall { id, key, costs, when, told, back }
    }

    /// Slots are done, windows returned. Buckets stay debited, so that rates are easy to check.
    fn give_back(&self, charge: Charge, booking: Booking) -> Option<Stretch> {
        let algorithm = self.policy.limits()[0].algorithm();
        let action = match algorithm {
            Algorithm::Concurrency { .. } => Action::Done(booking.permit),
            Algorithm::Window(_) if self.policy.limits().len() == 1 => {
                Action::Return { booking, remember: false }
            }
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => return None,
        };
        Some(self.apply(Operation::one(charge, action)).1)
    }

    fn apply(&self, operation: Operation) -> (Outcome, Stretch) {
        let store = &self.store;
        let act = || wait_for(store.apply(std::slice::from_ref(&operation))).expect("the store answers");
        let (mut outcomes, when) = self.time.measure(act);
        (outcomes.remove(0), when)
    }

    /// with a clock that stands still, exactly the granted and not returned units are used. A-5: no reading shows more
    /// remaining than the limit.
    fn denials_took_nothing(&self, history: &History) {
        for key in 0..2 {
            let (outcome, _) = self.apply(Operation::one(self.charge(key, 1), Action::Peek));
            let Outcome::Peeked(charges) = outcome else { panic!("a peek is answered with {outcome:?}") };
            for (limit, reading) in charges[0].readings.iter().enumerate() {
                assert!(reading.remaining <= reading.capacity, "A-5: {reading:?}");
                let kept = |call: &&HistoryCall| {
                    call.key == key && call.told == Told::Admitted && call.back.is_none()
                };
                let kept: u64 = history.calls.iter().filter(kept).map(|call| call.costs[limit]).sum();
                if self.pace == Pace::Still {
                    assert_eq!(
                        reading.used, kept,
                        "A-3: limit {limit} of account {key}, granted and not returned"
                    );
                }
            }
        }
    }

    fn charge(&self, key: u64, amount: u64) -> Charge {
        let cost = self.policy.cost([("requests", amount)]).expect("all targets count requests");
        let subject = Subject::new(&key.to_string()).expect("a number is a subject");
        Charge::new(Arc::clone(&self.policy), subject).with_cost(cost)
    }

    fn rules(&self) -> Vec<Rule> {
        let rule = |limit: &Limit| match limit.algorithm() {
            Algorithm::Window(calendar) => Rule::Window(limit.amount(), calendar.clone()),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) | Algorithm::Adaptive(period) => {
                Rule::Bucket { amount: limit.amount(), period: *period, burst: limit.capacity() }
            }
            Algorithm::Sliding(period) => Rule::Sliding(limit.amount(), *period),
            Algorithm::FromFirstCall(period) => Rule::FromFirstCall(limit.amount(), *period),
            Algorithm::Concurrency { .. } => Rule::Slots(limit.amount()),
        };
        self.policy.limits().iter().map(rule).collect()
    }
}
