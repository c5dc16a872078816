//! Ours and governor with any number of limits and policies, all of which always grant.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tollway::{Limiter, TakeError, Taken};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::Work;

/// More than a run can take from one key.
const PLENTY: u32 = 1_000_000_000;

/// A limit of ours: its refill is slow, so that a key stays in use between two visits.
pub(super) fn limit(hours: usize) -> String {
    format!("10000 / {hours} hours bucket burst {PLENTY}")
}

/// The same limit of governor's.
pub(super) fn governor(hours: usize) -> DefaultKeyedRateLimiter<String> {
    let interval = Duration::from_secs(hours as u64 * 3_600) / 10_000;
    let quota = Quota::with_period(interval).expect("a quota refills");
    RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(PLENTY).expect("a burst is not zero")))
}

/// One policy of so many limits; room for every key.
pub(super) fn ours(limits: usize, keys: &Keys) -> Contender {
    let limits: Vec<String> = (1..=limits).map(limit).collect();
    let builder = Limiter::builder().policy("bench", limits.iter().map(String::as_str));
    // The shards do not fill evenly.
    let accounts = keys.keys.len() / 4 * 5 + 10_000;
    let limiter = builder.expect("the limits are right").memory_accounts(accounts).build();
    let handle = limiter.policy("bench").expect("it was just built");
    Contender::new("tollway", Work::OneLimit, keys, move || {
        let handle = handle.clone();
        move |key| granted(handle.try_take().subject(key).now())
    })
    .warm_up()
}

/// So many limiters, checked in a row.
pub(super) fn theirs(limits: usize, keys: &Keys) -> Contender {
    let limiters: Arc<[_]> = (1..=limits).map(governor).collect();
    Contender::new("governor", Work::OneLimit, keys, move || {
        let limiters = Arc::clone(&limiters);
        move |key: &String| limiters.iter().all(|limiter| limiter.check_key(key).is_ok())
    })
    .warm_up()
}

pub(super) fn granted(taken: Result<Taken<'_>, TakeError>) -> bool {
    matches!(taken, Ok(Taken::Granted(_)))
}
