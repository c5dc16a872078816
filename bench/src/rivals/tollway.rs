//! Ours: one policy, resolved once; a handle per thread, a subject per take.

use std::future::Future;
use std::sync::Arc;

use tollway::{Clock, Limiter, PolicyHandle, Taken, Timestamp};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Time, Work};

const POLICY: &str = "bench";

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000_000)
    }
}

pub(crate) fn contender(work: Work, time: Time, keys: &Keys) -> Contender {
    let limits: Vec<String> = work.quotas().into_iter().map(in_words).collect();
    let limits = limits.iter().map(String::as_str);
    let mut builder = Limiter::builder().policy(POLICY, limits).expect("the limits are right");
    if time == Time::Fixed {
        builder = builder.clock(Arc::new(FixedClock));
    }
    let handle = builder.build().policy(POLICY).expect("it was just built");
    Contender::new("tollway", work, keys, move || {
        let handle = handle.clone();
        // Only asked whether, as the rivals are: the answer is looked at where it lies.
        move |key| matches!(handle.try_take().subject(key).now(), Ok(Taken::Granted(_)))
    })
}

fn in_words(quota: Quota) -> String {
    let Quota { amount, period_seconds, burst } = quota;
    format!("{amount} / {period_seconds} seconds bucket burst {burst}")
}

/// Takes one after the other on one subject, each waiting for its turn.
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
            drop(permit.await.expect("nobody waits for ten minutes"));
        }
    }
}
