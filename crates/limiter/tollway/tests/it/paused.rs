//! A limiter whose time is tokio's: paused, and moved on by the runtime when everybody sleeps.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollway::{Clock, Limiter, Policy, Span, Timestamp};

/// The first moment of an hour: also of a minute and a second.
pub(crate) const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

/// Tokio's time, on top of [`START`].
pub(crate) struct PausedClock {
    started: Instant,
}

impl PausedClock {
    /// Begins now; to be called inside the runtime.
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self { started: Instant::now() })
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How many milliseconds it has run, which must be a whole number of them.
    pub(crate) fn millis(&self) -> u64 {
        let elapsed = self.elapsed();
        assert_eq!(elapsed.subsec_micros() % 1_000, 0, "{elapsed:?}");
        elapsed.as_millis() as u64
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        START.plus(Span::from(self.started.elapsed()))
    }
}

/// A limiter of these policies, each of one limit, on memory and paused time.
pub(crate) fn limiter<const N: usize>(policies: [(&str, &str); N]) -> (Limiter, Arc<PausedClock>) {
    limiter_of(policies.map(|(name, limit)| Policy::new(name, [limit]).unwrap()))
}

pub(crate) fn limiter_of<const N: usize>(policies: [Policy; N]) -> (Limiter, Arc<PausedClock>) {
    let clock = PausedClock::start();
    let builder =
        policies.into_iter().fold(Limiter::builder(), |builder, policy| builder.with_policy(policy).unwrap());
    (builder.clock(clock.clone()).build(), clock)
}

/// What the first limit of a policy shows as used.
pub(crate) async fn used(limiter: &Limiter, policy: &str) -> u64 {
    limiter.usage(policy).await.unwrap().limits[0].used
}

/// Lets every task that is ready run until it waits for time.
pub(crate) async fn settle_down() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
