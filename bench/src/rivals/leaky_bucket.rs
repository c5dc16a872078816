//! leaky-bucket: one limit, no keys.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaky_bucket::RateLimiter;

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::Work;

pub(crate) fn contender(work: Work, keys: &Keys) -> Contender {
    let quota = work.quotas()[0];
    let limiter = RateLimiter::builder()
        .initial(quota.burst as usize)
        .max(quota.burst as usize)
        .refill(quota.amount as usize)
        .interval(Duration::from_secs(quota.period_seconds.into()))
        .build();
    let limiter = Arc::new(limiter);
    Contender::new("leaky-bucket", work, keys, move || {
        let limiter = Arc::clone(&limiter);
        move |_key| limiter.try_acquire(1)
    })
}

pub(crate) struct Waiter(Arc<RateLimiter>);

impl Waiter {
    /// One token per interval, burst 1, in order of arrival.
    pub(crate) fn new(rate: u32) -> Self {
        let interval = Duration::from_secs(1) / rate;
        let limiter =
            RateLimiter::builder().initial(1).max(1).refill(1).interval(interval).fair(true).build();
        Self(Arc::new(limiter))
    }
}

impl super::Waiter for Waiter {
    fn join(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn wait(&self) -> impl Future<Output = ()> + Send {
        self.0.acquire_one()
    }
}
