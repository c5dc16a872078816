//! throttlecrab: one limit per take, passed with every take; `&mut`, so threads share it behind a lock.
#![allow(clippy::disallowed_methods, reason = "its caller passes the machine's time in")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use throttlecrab::{PeriodicStore, RateLimiter};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Time, Work};

pub(crate) fn contender(work: Work, time: Time, keys: &Keys) -> Contender {
    let Quota { amount, period_seconds, burst } = work.quotas()[0];
    let (amount, period_seconds, burst) = (i64::from(amount), i64::from(period_seconds), i64::from(burst));
    let limiter = Arc::new(Mutex::new(RateLimiter::new(PeriodicStore::new())));
    let fixed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Contender::new("throttlecrab", work, keys, move || {
        let limiter = Arc::clone(&limiter);
        move |key| {
            let now = if time == Time::Fixed { fixed } else { SystemTime::now() };
            let mut limiter = limiter.lock().expect("no worker panics");
            limiter.rate_limit(key, burst, amount, period_seconds, 1, now).expect("the limit is right").0
        }
    })
}
