//! What a program chooses: skipped requests, its own denials, and headers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollway::{Limiter, Timestamp};
use tollway_testkit::ManualClock;
use tollway_tower::{HeaderChoice, LimitedBody, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

/// One request a minute; it is second 90 since 1970, half way through a minute.
fn layer() -> RateLimitLayer {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(90)));
    let limiter = Limiter::builder().policy("api", ["1 request / minute"]).unwrap().clock(clock).build();
    RateLimitLayer::new(limiter.policy("api").unwrap())
}

async fn hello(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

async fn send(layer: &RateLimitLayer, request: Request<()>) -> Response<LimitedBody<Body>> {
    layer.layer(service_fn(hello)).oneshot(request).await.unwrap()
}

/// The response to a second request of the minute.
async fn denied(layer: &RateLimitLayer) -> Response<LimitedBody<Body>> {
    assert_eq!(send(layer, get("/")).await.status(), StatusCode::OK);
    send(layer, get("/orders")).await
}

async fn text(response: Response<LimitedBody<Body>>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// C5: a program replaces the body; status and headers stay.
#[tokio::test]
async fn a_program_writes_the_body_of_a_denial_and_the_rest_stays() {
    let layer = layer().on_denied(|request, denied, response| {
        let (path, limit) = (request.uri.path(), denied.limit().unwrap().name());
        *response.body_mut() = format!("{path}: {limit}, in {:?}", denied.retry_after()).into();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    });
    let denied = denied(&layer).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    for (name, value) in [
        ("content-type", "text/plain"),
        ("retry-after", "30"),
        ("x-rate-limit-limit", "1"),
        ("x-ratelimit-remaining", "0"),
        ("ratelimit", "\"requests_per_minute\";r=0;t=30"),
    ] {
        assert_eq!(denied.headers()[name], value, "{name}");
    }
    assert_eq!(text(denied).await, "/orders: requests_per_minute, in 30s");
}

#[tokio::test]
async fn a_program_changes_status_and_headers_of_a_denial() {
    let layer = layer().on_denied(|_, _, response| {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().remove("ratelimit");
        response.body_mut().clear();
    });
    let denied = denied(&layer).await;
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!denied.headers().contains_key("ratelimit") && denied.headers().contains_key("retry-after"));
    assert!(http_body::Body::is_end_stream(denied.body()));
}

/// A gRPC client reads no body, and needs the status that the layer writes.
#[tokio::test]
async fn a_grpc_denial_is_not_changed() {
    let layer = layer().on_denied(|_, _, response| *response.body_mut() = "not for gRPC".into());
    let call = || Request::post("/a.B/C").header("content-type", "application/grpc").body(()).unwrap();
    send(&layer, call()).await;
    let denied = send(&layer, call()).await;
    assert_eq!(denied.headers()["grpc-status"], "8");
    assert_eq!(text(denied).await, "");
}

#[tokio::test]
async fn skipped_requests_are_not_counted_and_have_no_headers() {
    let layer = layer()
        .skip(|request| request.uri.path() == "/health")
        .skip(|request| request.headers.contains_key("x-internal"));
    let internal = || Request::get("/").header("x-internal", "1").body(()).unwrap();
    for request in [get("/health"), internal(), get("/health")] {
        let answer = send(&layer, request).await;
        assert_eq!((answer.status(), answer.headers().len()), (StatusCode::OK, 0));
    }
    assert_eq!(denied(&layer).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(&layer, get("/health")).await.status(), StatusCode::OK);
}

/// C5: the message of a plain policy names no consumer: there is none.
#[tokio::test]
async fn the_message_of_a_policy_names_only_its_limit() {
    let body: serde_json::Value = serde_json::from_str(&text(denied(&layer()).await).await).unwrap();
    assert_eq!(body["message"], "Too Many Requests. We only allow 1 requests per minute.");
}

/// C5: `X-Rate-Limit-Reset` is a length of time, `X-RateLimit-Reset` a time.
#[tokio::test]
async fn both_spellings_are_written_unless_the_program_chooses() {
    let reset = ["x-rate-limit-reset", "x-ratelimit-reset"];
    let answer = send(&layer(), get("/")).await;
    assert_eq!(reset.map(|name| answer.headers()[name].to_str().unwrap().to_owned()), ["30", "120"]);
    let without = HeaderChoice { x_ratelimit: false, ..HeaderChoice::ALL };
    let answer = send(&layer().headers(without), get("/")).await;
    assert_eq!(reset.map(|name| answer.headers().contains_key(name)), [true, false]);
}
