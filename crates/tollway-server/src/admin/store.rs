//! Whether the store answers: asked now, not remembered.

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollway::core::Policy;
use tollway::{CONSUMERS_POLICY, Limiter};

use crate::http::{Problem, Response, json};
use crate::worker::Worker;

/// What the store is asked for: to look at a meter. It fits every layout, and to look changes nothing.
const LIMIT: &str = "1 requests / second from first call";
const SUBJECT: &str = "health";

/// Whether the store answers.
pub(super) async fn answers(limiter: &Limiter) -> bool {
    let Ok(policy) = Policy::new(CONSUMERS_POLICY, [LIMIT]) else { return false };
    // A config without consumers may have a policy of that name; it does as well.
    let bound = limiter.bind(policy).ok().or_else(|| limiter.policy(CONSUMERS_POLICY).ok());
    match bound {
        Some(handle) => handle.usage().subject(SUBJECT).await.is_ok(),
        None => false,
    }
}

/// How Redis is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RedisHealthAnswer {
    /// Whether it answers.
    redis_ready: bool,
    /// Its host, or the first of them.
    url: String,
    port: u16,
}

/// How the configured Redis is. The status is 200 either way: the server lives, and every policy says what to do.
pub(crate) async fn redis_health(worker: &Worker) -> Result<Response, Problem> {
    let store = &worker.shared.store;
    let Some(place) = &store.redis else { return Err(Problem::no_redis(store.technology)) };
    let redis_ready = answers(&worker.shared.limiter).await;
    let answer = RedisHealthAnswer { redis_ready, url: place.host.clone(), port: place.port };
    Ok(json(StatusCode::OK, &answer))
}
