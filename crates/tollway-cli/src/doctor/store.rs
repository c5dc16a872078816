//! Whether a store answers, and by which clock.

use tollway::config::StoreClock;
use tollway::core::{Fault, Policy, Span, Timestamp, WhenStoreFails};
use tollway::{Limiter, StoreUrl, TakeError};

use super::finding::{Finding, Findings};
use crate::context::Context;
use crate::words;

/// How far the store's clock may be from this machine's: more than any two clocks that are kept by the network.
const CLOCK_SKEW_MAX: Span = Span::from_secs(1);

/// What the store is asked for: to look at a meter that nobody has. To look changes nothing.
const POLICY: &str = "doctor";
const LIMIT: &str = "1 requests / second from first call";

/// Asks the store as a limiter does. Whether it answered.
pub(super) async fn look_at(store: &StoreUrl, context: &Context, findings: &mut Findings) -> bool {
    findings.looked_at(format!("store {store}"));
    let before = context.now();
    let seen = peek(store).await;
    let after = context.now();
    match seen {
        Ok(Some(time)) if store.kind().clock == StoreClock::Server => {
            findings.findings.extend(clock_skew(before, time, after));
            true
        }
        Ok(_) => true,
        Err(error) => {
            findings.add(Finding::problem(
                "store-unreachable",
                format!("the store {store} does not answer: {error}"),
                "nothing is counted; each policy does what its `when_store_fails` says, and consumers are let through \
                 unless theirs says otherwise",
                "see that it runs and that this machine reaches it (`redis-cli -h HOST -p PORT ping` for Redis), then check the \
                 user, the password and TLS in [store] url",
            ));
            false
        }
    }
}

/// The store's time, if it tells. A layout that such a policy does not fit says so, and so has answered.
async fn peek(store: &StoreUrl) -> Result<Option<Timestamp>, String> {
    let policy = Policy::new(POLICY, [LIMIT]).map_err(|error| error.to_string())?;
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed);
    let builder = Limiter::builder().fixed_limits().store_at(store).map_err(|error| error.to_string())?;
    let limiter = builder.with_policy(policy).map_err(|error| error.to_string())?.build();
    match limiter.usage(POLICY).subject(POLICY).await {
        Ok(usage) => Ok(usage.limits.first().map(|limit| limit.as_of)),
        Err(TakeError::Store(error)) if error.fault != Fault::Caller => Err(error.to_string()),
        Err(_) => Ok(None),
    }
}

/// The store's time lies between two readings of ours, or somebody's clock is wrong.
fn clock_skew(before: Timestamp, store: Timestamp, after: Timestamp) -> Option<Finding> {
    let (skew, direction) = match store < before {
        true => (before.since(store), "behind"),
        false => (store.since(after), "ahead of"),
    };
    (skew > CLOCK_SKEW_MAX).then(|| {
        let skew = words::span(skew);
        Finding::problem(
            "clock-skew",
            format!("the store's clock is {skew} {direction} this machine's"),
            "windows begin and end by the store's clock, records and logs by this machine's: around the full hour they \
             disagree, and vendors see calls in another window than the one they were granted for",
            "keep both clocks by NTP: `timedatectl set-ntp true`, or chrony",
        )
    })
}

/// Each process counts for itself.
pub(super) fn in_memory() -> Finding {
    Finding::note(
        "store-in-memory",
        "meters are kept in memory",
        "each process counts by itself and forgets when it ends: two servers allow twice as much",
        "name a store that all of them share, as in [store] url = \"redis://HOST\"",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_if_it_is_off_by_more_than_the_question_took() {
        let at = Timestamp::from_millis;
        let found = |store| clock_skew(at(10_000), at(store), at(12_000)).map(|finding| finding.what);
        for right in [9_000, 10_000, 11_000, 12_000, 13_000] {
            assert_eq!(found(right), None);
        }
        assert_eq!(found(8_000).unwrap(), "the store's clock is 2 s behind this machine's");
        assert!(found(3_612_000).unwrap().contains("1 h ahead of this machine's"));
    }
}
