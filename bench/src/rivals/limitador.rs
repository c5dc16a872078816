//! limitador: limits of a namespace with one variable, in memory. The context is built with every take, as its server
//! does: it holds the values of the request.

use std::collections::HashMap;
use std::sync::Arc;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::work::{Quota, Work};

/// Room for six counters of 100,000 keys: none is pushed out.
const COUNTERS_MAX: u64 = 1_000_000;
const VARIABLE: &str = "user";

pub(crate) fn contender(work: Work, keys: &Keys) -> Contender {
    let limiter = RateLimiter::new(COUNTERS_MAX);
    for Quota { period_seconds, burst, .. } in work.quotas() {
        let variable = VARIABLE.try_into().expect("a name is an expression");
        // Its only kind is a window from the first hit: the burst is what fits in one.
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
