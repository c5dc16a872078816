//! Ours: one policy, resolved once; a handle per thread, a subject per take.

use std::fmt::Write;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway::{Clock, Limiter, PolicyHandle, Span, TakeError, Taken, Timestamp};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Time, Work};

const POLICY: &str = "bench";
const SECOND_POLICY: &str = "second";

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000_000)
    }
}

/// How far the clock advances per this many takes of one thread: an id expires before its key is visited again.
const STEP: (u64, Span) = (1_000, Span::from_secs(7));

/// A clock that takes advance. Ids are kept for ten minutes: by the machine's clock every key would collect more of them
/// with every visit, and the last rounds would measure other takes than the first.
struct SteppingClock(AtomicU64);

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn contender(work: Work, time: Time, keys: &Keys) -> Contender {
    let handle = handle(work, "requests", clock_of(time));
    Contender::new("tollway", work, keys, move || {
        let handle = handle.clone();
        // Only matched by reference, as for the rivals: the result is not moved.
        move |key| matches!(handle.try_take().subject(key).now(), Ok(Taken::Granted(_)))
    })
}

/// Takes that need more than a policy and a subject.
pub(crate) fn slow_path(work: Work, time: Time, keys: &Keys) -> Contender {
    match work {
        Work::NamedCost => {
            let handle = handle(work, "tokens", clock_of(time));
            Contender::new("tollway", work, keys, move || {
                let handle = handle.clone();
                move |key| granted(handle.try_take().subject(key).cost("tokens", 3).now())
            })
        }
        Work::WithId => {
            let clock = Arc::new(SteppingClock(AtomicU64::new(1_000_000_000)));
            let (handle, names) = (handle(work, "requests", Some(clock.clone())), Names::new("id"));
            Contender::new("tollway", work, keys, move || {
                let (handle, mut names, clock) = (handle.clone(), names.of_a_thread(), clock.clone());
                move |key| {
                    if names.next.is_multiple_of(STEP.0) && time == Time::Machine {
                        clock.0.fetch_add(STEP.1.as_micros(), Ordering::Relaxed);
                    }
                    granted(handle.try_take().subject(key).id(names.next()).now())
                }
            })
        }
        Work::TwoPolicies => {
            let handle = handle(work, "requests", clock_of(time));
            Contender::new("tollway", work, keys, move || {
                let handle = handle.clone();
                move |key| granted(handle.try_take().subject(key).and(SECOND_POLICY).subject(key).now())
            })
        }
        Work::NewSubject => {
            let (handle, names) = (handle(work, "requests", clock_of(time)), Names::new("user"));
            Contender::new("tollway", work, keys, move || {
                let (handle, mut names) = (handle.clone(), names.of_a_thread());
                move |_| granted(handle.try_take().subject(names.next()).now())
            })
        }
        Work::OneLimit | Work::SixLimits | Work::SevenLimits | Work::Exhausted => contender(work, time, keys),
    }
}

/// `None` is the machine's clock.
fn clock_of(time: Time) -> Option<Arc<dyn Clock>> {
    match time {
        Time::Machine => None,
        Time::Fixed => Some(Arc::new(FixedClock)),
    }
}

fn handle(work: Work, unit: &str, clock: Option<Arc<dyn Clock>>) -> PolicyHandle {
    let limits: Vec<String> = work.quotas().into_iter().map(|quota| in_words(quota, unit)).collect();
    let limits = || limits.iter().map(String::as_str);
    let mut builder = Limiter::builder().policy(POLICY, limits()).expect("the limits are right");
    builder = builder.policy(SECOND_POLICY, limits()).expect("the limits are right");
    if let Some(clock) = clock {
        builder = builder.clock(clock);
    }
    builder.build().policy(POLICY).expect("it was just built")
}

fn granted(taken: Result<Taken<'_>, TakeError>) -> bool {
    matches!(taken, Ok(Taken::Granted(_)))
}

fn in_words(quota: Quota, unit: &str) -> String {
    let Quota { amount, period_seconds, burst } = quota;
    format!("{amount} {unit} / {period_seconds} seconds bucket burst {burst}")
}

/// Names that no take has used before, in any thread. Each is written in place, so takes pay for the digits but not for an
/// allocation.
struct Names {
    prefix: &'static str,
    threads: AtomicU64,
}

struct NamesOfThread {
    name: String,
    /// The length of the fixed part.
    fixed: usize,
    next: u64,
}

impl Names {
    fn new(prefix: &'static str) -> Self {
        Self { prefix, threads: AtomicU64::new(0) }
    }

    fn of_a_thread(&self) -> NamesOfThread {
        let name = format!("{}:{}:", self.prefix, self.threads.fetch_add(1, Ordering::Relaxed));
        NamesOfThread { fixed: name.len(), name, next: 0 }
    }
}

impl NamesOfThread {
    fn next(&mut self) -> &str {
        self.name.truncate(self.fixed);
        write!(self.name, "{:08}", self.next).expect("a string takes all that is written");
        self.next += 1;
        &self.name
    }
}

/// Takes repeatedly for one subject, and waits for each.
pub(crate) struct Waiter(PolicyHandle);

impl Waiter {
    pub(crate) fn new(rate: u32) -> Self {
        let limit = format!("{rate} / second paced");
        let builder = Limiter::builder().policy(POLICY, [limit.as_str()]).expect("the limit is right");
        Self(builder.build().policy(POLICY).expect("it was just built"))
    }
}

impl super::Waiter for Waiter {
    fn join(&self) -> Self {
        Self(self.0.clone())
    }

    fn wait(&self) -> impl Future<Output = ()> + Send {
        let permit = self.0.take().subject("everyone").into_future();
        async {
            drop(permit.await.expect("no task waits for ten minutes"));
        }
    }
}
