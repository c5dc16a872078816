//! Whether the store answers: asked now, but only once a second for requests without a token.

use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tollway::core::Policy;
use tollway::{Limiter, Span, Timestamp};
use tollway_inbound::CONSUMERS_POLICY;

use super::access::may_enter;
use crate::http::{Access, Problem, Response, json};
use crate::worker::Worker;

/// What the store is asked for: to look at a meter. It fits every layout, and to look changes nothing.
const LIMIT: &str = "1 requests / second from first call";
const SUBJECT: &str = "health";

/// Whether the store answers.
pub(crate) async fn answers(limiter: &Limiter) -> bool {
    let Ok(policy) = Policy::new(CONSUMERS_POLICY, [LIMIT]) else { return false };
    // A config without consumers may have a policy of that name; it does as well.
    let bound = limiter.bind(policy).ok().or_else(|| limiter.policy(CONSUMERS_POLICY).ok());
    match bound {
        Some(handle) => handle.usage().subject(SUBJECT).await.is_ok(),
        None => false,
    }
}

/// How long it is remembered whether the store answers: the endpoint is open, and must not become a way to load the store.
const REMEMBERED_FOR: Span = Span::from_secs(1);

/// What the store was last found to do, and when.
#[derive(Default)]
pub(crate) struct StoreHealth(Mutex<Option<(Timestamp, bool)>>);

impl StoreHealth {
    /// Whether the store answers, or did a moment ago. Concurrent requests share one check.
    async fn answers(&self, limiter: &Limiter) -> bool {
        let mut found = self.0.lock().await;
        let now = limiter.clock().now();
        if let Some((then, answered)) = *found
            // A clock that was set back makes nothing last.
            && then <= now
            && now.since(then) < REMEMBERED_FOR
        {
            return answered;
        }
        let answered = answers(limiter).await;
        *found = Some((limiter.clock().now(), answered));
        answered
    }
}

/// How Redis is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RedisHealthAnswer {
    /// Whether it answers; without a token, whether it did a second ago.
    redis_ready: bool,
    /// Its address, for requests with a read token.
    #[serde(flatten)]
    place: Option<RedisPlaceAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct RedisPlaceAnswer {
    /// Its host, or the first of them.
    url: String,
    port: u16,
}

/// How the configured Redis is. The status is 200 either way: the server lives, and every policy says what to do.
pub(crate) async fn redis_health(worker: &Worker, headers: &HeaderMap) -> Result<Response, Problem> {
    let store = &worker.state.store;
    let Some(place) = &store.redis else { return Err(Problem::no_redis(store.technology)) };
    let limiter = &worker.state.limiter;
    // Probes come without a token. They need not know where it is.
    let answer = match may_enter(Access::Read, worker, headers) {
        Ok(()) => {
            let place = RedisPlaceAnswer { url: place.host.clone(), port: place.port };
            RedisHealthAnswer { redis_ready: answers(limiter).await, place: Some(place) }
        }
        Err(_) => {
            let redis_ready = worker.state.store_health.answers(limiter).await;
            RedisHealthAnswer { redis_ready, place: None }
        }
    };
    Ok(json(StatusCode::OK, &answer))
}
