//! Store health: checked for each request with a token, and at most once a second for all others.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tollway::core::Policy;
use tollway::{Limiter, Span, Timestamp};
use tollway_inbound::CONSUMERS_POLICY;

use super::access::{Refused, may_enter};
use crate::connection::Caller;
use crate::http::{Access, Problem, Response, json};
use crate::worker::Worker;

/// The check reads the usage of this limit: every store layout supports it, and reading changes nothing.
const LIMIT: &str = "1 requests / second from first call";
const SUBJECT: &str = "health";

/// Whether the store answers.
pub(crate) async fn answers(limiter: &Limiter) -> bool {
    let Ok(policy) = Policy::new(CONSUMERS_POLICY, [LIMIT]) else { return false };
    // A config without consumers may have its own policy of that name, which serves as well.
    let bound = limiter.bind(policy).ok().or_else(|| limiter.policy(CONSUMERS_POLICY).ok());
    match bound {
        Some(handle) => handle.usage().subject(SUBJECT).await.is_ok(),
        None => false,
    }
}

/// How long a result is cached: the endpoint needs no token, and must not let clients load the store.
const REMEMBERED_FOR: Span = Span::from_secs(1);

/// When the store was last checked, and whether it answered.
#[derive(Default)]
pub(crate) struct StoreHealth(Mutex<Option<(Timestamp, bool)>>);

impl StoreHealth {
    /// Whether the store answers, or did within the last second. Concurrent requests share one check.
    async fn answers(&self, limiter: &Limiter) -> bool {
        let mut found = self.0.lock().await;
        let now = limiter.clock().now();
        if let Some((then, answered)) = *found
            // A result from the future, after the clock was set back, is not used.
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

/// The state of Redis.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RedisHealthAnswer {
    /// Whether it answers; without a token, the result may be a second old.
    redis_ready: bool,
    /// Its address, for requests with a read token.
    #[serde(flatten)]
    place: Option<RedisPlaceAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct RedisPlaceAnswer {
    /// Its first host.
    url: String,
    port: u16,
}

/// The health of the configured Redis. The status is 200 either way: the server keeps deciding without the store.
pub(crate) async fn redis_health(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let store = &worker.state.store;
    let Some(place) = &store.redis else { return Err(Problem::no_redis(store.technology)) };
    let limiter = &worker.state.limiter;
    // Probes have no token, and need no address.
    let entered = may_enter(Access::Read, &worker.state.rules(), worker, caller, request.headers());
    drop(request);
    let answer = match entered {
        Ok(_) => {
            let place = RedisPlaceAnswer { url: place.host.clone(), port: place.port };
            RedisHealthAnswer { redis_ready: answers(limiter).await, place: Some(place) }
        }
        Err(refused) => {
            if matches!(refused, Refused::WrongToken) {
                refused.answer_late(worker).await;
            }
            let redis_ready = worker.state.store_health.answers(limiter).await;
            RedisHealthAnswer { redis_ready, place: None }
        }
    };
    Ok(json(StatusCode::OK, &answer))
}
