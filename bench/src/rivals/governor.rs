//! governor: one quota per limiter; six limits are six limiters checked in a row, which is not all or nothing.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::{DefaultDirectRateLimiter, RateLimiter};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Time, Work};

/// One limiter for all: it has no keys.
pub(crate) fn direct(work: Work, time: Time, keys: &Keys) -> Contender {
    match time {
        Time::Machine => direct_with(work, DefaultClock::default(), keys),
        Time::Fixed => direct_with(work, FakeRelativeClock::default(), keys),
    }
}

fn direct_with<C: Clock + Send + Sync + 'static>(work: Work, clock: C, keys: &Keys) -> Contender {
    let limiter = Arc::new(RateLimiter::direct_with_clock(quotas(work)[0], clock));
    Contender::new("governor direct", work, keys, move || {
        let limiter = Arc::clone(&limiter);
        move |_key| limiter.check().is_ok()
    })
}

/// A limiter by key: `String` keys in its default store.
pub(crate) fn keyed(work: Work, time: Time, keys: &Keys) -> Contender {
    match time {
        Time::Machine => keyed_with(work, DefaultClock::default(), keys),
        Time::Fixed => keyed_with(work, FakeRelativeClock::default(), keys),
    }
}

fn keyed_with<C: Clock + Clone + Send + Sync + 'static>(work: Work, clock: C, keys: &Keys) -> Contender {
    let limiter = |quota| Arc::new(RateLimiter::dashmap_with_clock(quota, clock.clone()));
    let limiters: Vec<_> = quotas(work).into_iter().map(limiter).collect();
    if let [only] = limiters.as_slice() {
        let limiter = Arc::clone(only);
        return Contender::new("governor keyed", work, keys, move || {
            let limiter = Arc::clone(&limiter);
            move |key: &String| limiter.check_key(key).is_ok()
        });
    }
    Contender::new("six governors keyed", work, keys, move || {
        let limiters = limiters.clone();
        move |key: &String| limiters.iter().all(|limiter| limiter.check_key(key).is_ok())
    })
}

fn quotas(work: Work) -> Vec<governor::Quota> {
    let quota = |Quota { amount, period_seconds, burst }| {
        let interval = Duration::from_secs(period_seconds.into()) / amount;
        let quota = governor::Quota::with_period(interval).expect("a quota refills");
        quota.allow_burst(NonZeroU32::new(burst).expect("a burst is not zero"))
    };
    work.quotas().into_iter().map(quota).collect()
}

pub(crate) struct Waiter(Arc<DefaultDirectRateLimiter>);

impl Waiter {
    /// Burst 1, as in ours: evenly spaced grants.
    pub(crate) fn new(rate: u32) -> Self {
        let rate = NonZeroU32::new(rate).expect("a rate is not zero");
        let quota = governor::Quota::per_second(rate).allow_burst(NonZeroU32::MIN);
        Self(Arc::new(RateLimiter::direct(quota)))
    }
}

impl super::Waiter for Waiter {
    fn join(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn wait(&self) -> impl Future<Output = ()> + Send {
        self.0.until_ready()
    }
}
