//! A layer with several policies takes under all of them or under none.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollway::Limiter;
use tollway_tower::{RateLimitLayer, SubjectFrom};
use tower::{Layer, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

/// 10 requests of all callers, 2 of each key.
fn limiter() -> Limiter {
    let builder = Limiter::builder().policy("all", ["10 / hour from first call"]).unwrap();
    builder.policy("keys", ["2 / hour from first call"]).unwrap().build()
}

fn together(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter.policy("all").unwrap())
        .and(limiter.policy("keys").unwrap())
        .subject(SubjectFrom::header("x-api-key"))
}

async fn hello(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn get(key: &str) -> Request<()> {
    Request::get("/").header("x-api-key", key).body(()).unwrap()
}

fn used(limiter: &Limiter) -> u64 {
    let usage = limiter.policy("all").unwrap().usage().now().unwrap();
    10 - usage.limits[0].remaining
}

/// Two layers around each other are two takes: a denial of the inner one leaves the outer one spent.
#[tokio::test]
async fn stacked_layers_are_two_takes() {
    let limiter = limiter();
    let outer = RateLimitLayer::new(limiter.policy("all").unwrap());
    let inner =
        RateLimitLayer::new(limiter.policy("keys").unwrap()).subject(SubjectFrom::header("x-api-key"));
    let service = outer.layer(inner.layer(service_fn(hello)));
    for status in [200, 200, 429, 429] {
        assert_eq!(service.clone().oneshot(get("anna")).await.unwrap().status(), status);
    }
    assert_eq!(used(&limiter), 4, "two of them by denied requests");
}

/// A request that one policy denies spends nothing of the other.
#[tokio::test]
async fn policies_of_one_layer_are_taken_all_or_nothing() {
    let limiter = limiter();
    let service = together(&limiter).layer(service_fn(hello));
    for status in [200, 200, 429, 429] {
        assert_eq!(service.clone().oneshot(get("anna")).await.unwrap().status(), status);
    }
    assert_eq!(used(&limiter), 2);
    // The other way round: when all callers have used up their limit, a key keeps its own.
    for number in 0..8 {
        let answer = service.clone().oneshot(get(&format!("key {number}"))).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    assert_eq!(service.clone().oneshot(get("ben")).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let ben = limiter.policy("keys").unwrap().usage().subject("x-api-key:ben").now().unwrap();
    assert_eq!(ben.limits[0].remaining, 2);
}

/// The headers list the limits of both; `X-Rate-Limit-*` and the body are of the one that denies.
#[tokio::test]
async fn a_denial_names_the_policy_that_denied() {
    let limiter = limiter();
    let service = together(&limiter).layer(service_fn(hello));
    let header = |answer: &Response<_>, name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    let granted = service.clone().oneshot(get("anna")).await.unwrap();
    let policies = header(&granted, "ratelimit-policy");
    for name in ["\"all.requests_per_hour\";q=10", "\"keys.requests_per_hour\";q=2"] {
        assert!(policies.contains(name), "{policies}");
    }
    service.clone().oneshot(get("anna")).await.unwrap();
    let denied = service.oneshot(get("anna")).await.unwrap();
    assert_eq!((header(&denied, "x-rate-limit-limit"), denied.status().as_u16()), ("2".to_owned(), 429));
    let body: serde_json::Value =
        serde_json::from_slice(&denied.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["policy"], "keys", "{body}");
}

/// Each policy has its own cost, and a slot of any of them is held until the response is sent.
#[tokio::test]
async fn costs_and_slots_belong_to_their_policy() {
    let limiter = Limiter::builder()
        .policy("bytes", ["100 bytes / hour from first call"])
        .unwrap()
        .policy("slots", ["1 concurrent"])
        .unwrap()
        .build();
    let layer = RateLimitLayer::new(limiter.policy("bytes").unwrap())
        .cost("bytes", |_| 40)
        .and(limiter.policy("slots").unwrap());
    let service = layer.layer(service_fn(hello));
    let first = service.clone().oneshot(get("anna")).await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(service.clone().oneshot(get("anna")).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    drop(first);
    assert_eq!(service.clone().oneshot(get("anna")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(service.oneshot(get("anna")).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}
