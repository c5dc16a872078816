//! limitador: limits of a namespace with one variable, in memory. Each take builds a context with the values of the request,
//! as limitador's server does.

use std::collections::HashMap;
use std::sync::Arc;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Work};

/// Room for six counters of 100,000 keys, so that none is evicted.
const COUNTERS_MAX: u64 = 1_000_000;
const VARIABLE: &str = "user";

pub(crate) fn contender(work: Work, keys: &Keys) -> Contender {
    let limiter = RateLimiter::new(COUNTERS_MAX);
    for Quota { period_seconds, burst, .. } in work.quotas() {
        let variable = VARIABLE.try_into().expect("a name is an expression");
        // It only supports windows from the first hit: the burst is the amount of one window.
        limiter.add_limit(Limit::new("bench", burst.into(), period_seconds.into(), vec![], vec![variable]));
    }
    let (limiter, namespace) = (Arc::new(limiter), Namespace::from("bench"));
    Contender::new("limitador", work, keys, move || {
        let (limiter, namespace) = (Arc::clone(&limiter), namespace.clone());
        move |key: &String| {
            let values = HashMap::from([(VARIABLE.to_owned(), key.clone())]);
            let context = Context::from(values);
            let checked = limiter.check_rate_limited_and_update(&namespace, &context, 1);
            !checked.expect("memory does not fail").limited
        }
    })
}
