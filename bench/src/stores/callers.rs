//! Many callers at once, each a task that takes in a loop.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use tokio::runtime::Runtime;

use super::periods::Period;
use crate::keys::Keys;
use crate::stopwatch::{Lap, Stopwatch};

/// A caller yields after this many takes. Without this, a store that never blocks would serve only two callers, one per
/// thread.
const TAKES_IN_A_ROW: u64 = 32;

/// One in this many takes is timed: reading the clock twice costs as much as half a take in memory.
const TIMED_ONE_OF: u64 = 7;

/// A limiter under test.
pub(super) trait Entrant: Sized {
    type Caller: Caller;

    /// Connects and prepares everything that is not part of a take.
    fn start(stage: &Stage) -> impl Future<Output = Result<Self>>;

    /// The caller with this number.
    fn caller(&self, number: usize) -> Self::Caller;

    /// Checks that the subject's meters show its takes, if the limiter can tell.
    fn check(&self, _subject: &str, _takes: u64) -> impl Future<Output = Result<()>> {
        async { Ok(()) }
    }
}

pub(super) trait Caller: Send + 'static {
    /// Takes one unit from each limit of the subject. Returns whether it was granted.
    fn take(&mut self, subject: &str) -> impl Future<Output = Result<bool>> + Send;
}

/// Settings shared by all entrants.
pub(super) struct Stage {
    pub(super) url: String,
    pub(super) periods: &'static [Period],
    pub(super) callers: usize,
    pub(super) keys: Keys,
}

/// The result of a run.
pub(super) struct Ran {
    pub(super) takes: u64,
    pub(super) wall: Duration,
    /// Of all threads of this process.
    pub(super) cpu: Duration,
    /// Sampled latencies, sorted.
    pub(super) latencies: Vec<Duration>,
}

/// Runs all callers for this long. A failed or denied take ends the run.
pub(super) fn run<E: Entrant>(entrant: &E, stage: &Stage, runtime: &Runtime, lasts: Duration) -> Result<Ran> {
    let over = Arc::new(AtomicBool::new(false));
    let stopwatch = Stopwatch::of_process();
    let tasks: Vec<_> = (0..stage.callers)
        .map(|number| {
            let (caller, keys, over) = (entrant.caller(number), stage.keys.clone(), Arc::clone(&over));
            // Each caller starts elsewhere in the order, so that they meet by chance.
            let from = number * keys.order.len() / stage.callers;
            runtime.spawn(async move { take_until(&over, caller, &keys, from).await })
        })
        .collect();
    std::thread::sleep(lasts);
    over.store(true, Ordering::Relaxed);
    let calls = runtime.block_on(try_join_all(tasks)).context("a caller panicked")?;
    let elapsed = stopwatch.elapsed();
    let mut ran = Ran { takes: 0, wall: elapsed.wall, cpu: elapsed.cpu, latencies: Vec::new() };
    for call in calls {
        let (takes, latencies) = call?;
        ran.takes += takes;
        ran.latencies.extend(latencies);
    }
    ran.latencies.sort_unstable();
    Ok(ran)
}

async fn take_until(
    over: &AtomicBool,
    mut caller: impl Caller,
    keys: &Keys,
    from: usize,
) -> Result<(u64, Vec<Duration>)> {
    let (mut takes, mut latencies) = (0, Vec::new());
    let visits = keys.order.iter().cycle().skip(from);
    for visit in visits.take_while(|_| !over.load(Ordering::Relaxed)) {
        let subject = &keys.keys[*visit as usize];
        let lap = (takes % TIMED_ONE_OF == 0).then(Lap::start);
        let granted = caller.take(subject).await?;
        latencies.extend(lap.map(|lap| lap.time()));
        ensure!(granted, "a take for {subject} was denied");
        takes += 1;
        if takes % TAKES_IN_A_ROW == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok((takes, latencies))
}
