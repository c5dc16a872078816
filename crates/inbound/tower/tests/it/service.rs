//! The layer around plain services, without a server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tollway::core::WhenStoreFails;
use tollway::{Limiter, Policy};
use tollway_testkit::servers::RedisServer;
use tollway_tower::{HeaderChoice, RateLimitLayer, SubjectFrom};
use tower::{Layer, Service, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

fn layer(limits: &[&str]) -> RateLimitLayer {
    let limiter = Limiter::builder().policy("api", limits.iter().copied()).unwrap().build();
    RateLimitLayer::new(limiter.policy("api").unwrap())
}

async fn hello(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// The status of a request to a service behind this layer.
async fn status(layer: &RateLimitLayer, request: Request<()>) -> StatusCode {
    layer.layer(service_fn(hello)).oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn all_services_of_a_layer_share_its_limit() {
    let layer = layer(&["2 requests / hour from first call"]);
    let answered = [
        status(&layer, get("/")).await,
        status(&layer.clone(), get("/")).await,
        status(&layer, get("/")).await,
    ];
    assert_eq!(answered.map(|status| status.as_u16()), [200, 200, 429]);
}

#[tokio::test]
async fn the_cost_function_sets_the_cost() {
    let by_length = |request: &http::request::Parts| {
        let length = request.headers.get("content-length").and_then(|length| length.to_str().ok());
        length.and_then(|length| length.parse().ok()).unwrap_or(0)
    };
    let layer = layer(&["100 bytes / hour from first call"]).cost("bytes", by_length);
    let of = |length: u64| Request::post("/").header("content-length", length).body(()).unwrap();
    assert_eq!(status(&layer, of(60)).await, StatusCode::OK);
    assert_eq!(status(&layer, of(60)).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&layer, of(40)).await, StatusCode::OK);
    // A cost over the capacity can never be granted.
    assert_eq!(status(&layer, of(101)).await, StatusCode::UNPROCESSABLE_ENTITY);
}

/// The problem is the same as the server's.
#[tokio::test]
async fn an_invalid_cost_is_reported() {
    let layer = layer(&["100 bytes / hour"]).cost("tokens", |_| 1);
    let answer = layer.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["type"], "urn:tollway:bad-cost", "{problem}");
}

#[tokio::test]
async fn an_invalid_subject_is_refused() {
    let layer = layer(&["2 requests / hour"]).subject(SubjectFrom::header("k"));
    let with = |key: &str| Request::get("/").header("k", key).body(()).unwrap();
    assert_eq!(status(&layer, with(&"x".repeat(2_000))).await, StatusCode::BAD_REQUEST);
    assert_eq!(status(&layer, with("x")).await, StatusCode::OK);
}

#[tokio::test]
async fn the_header_choice_applies() {
    let none = layer(&["2 requests / hour"]).headers(HeaderChoice::NONE);
    let answer = none.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert!(answer.headers().is_empty(), "{:?}", answer.headers());
}

/// B9: a shadow policy denies nothing and shows no headers.
#[tokio::test]
async fn a_shadow_denies_nothing_and_is_in_no_header() {
    let shadow = Policy::new("api", ["1 / hour from first call"]).unwrap().with_shadow(true);
    let limiter = Limiter::builder().with_policy(shadow).unwrap().build();
    let layer = RateLimitLayer::new(limiter.policy("api").unwrap());
    for _ in 0..3 {
        let answer = layer.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers().is_empty(), "{:?}", answer.headers());
    }
}

/// A slot is held until the whole response is sent.
#[tokio::test]
async fn a_slot_is_freed_when_the_body_ends() {
    let layer = layer(&["1 concurrent"]);
    let first = layer.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert_eq!(status(&layer, get("/")).await, StatusCode::TOO_MANY_REQUESTS);
    let body = first.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "hello");
    let second = layer.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert_eq!(second.status(), StatusCode::OK);
    // A disconnecting client ends the body, too.
    drop(second);
    assert_eq!(status(&layer, get("/")).await, StatusCode::OK);
}

#[tokio::test]
async fn a_slot_is_freed_when_the_service_fails_or_the_client_disconnects() {
    let layer = layer(&["1 concurrent"]);
    let fails = layer.layer(service_fn(async |_: Request<()>| Err::<Response<Body>, _>("it failed")));
    assert_eq!(fails.oneshot(get("/")).await.err(), Some("it failed"));
    let hangs = layer.layer(service_fn(async |_: Request<()>| {
        std::future::pending::<Result<Response<Body>, Infallible>>().await
    }));
    let given_up = tokio::time::timeout(Duration::from_millis(20), hangs.oneshot(get("/"))).await;
    assert!(given_up.is_err());
    assert_eq!(status(&layer, get("/")).await, StatusCode::OK);
}

/// tower's contract: only a ready service may be called.
#[tokio::test]
async fn the_ready_service_is_the_one_called() {
    #[derive(Default)]
    struct Careful {
        ready: bool,
    }
    impl Clone for Careful {
        fn clone(&self) -> Self {
            Self::default()
        }
    }
    impl Service<Request<()>> for Careful {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.ready = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            assert!(std::mem::take(&mut self.ready), "called before it was ready");
            ready(Ok(Response::new(Body::default())))
        }
    }
    let mut service = layer(&["10 requests / hour"]).layer(Careful::default());
    for _ in 0..3 {
        let answer = service.ready().await.unwrap().call(get("/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

/// A gRPC client reads its status from the trailers: a trailers-only response with HTTP status 200.
#[tokio::test]
async fn a_denied_grpc_request_gets_a_grpc_status() {
    let layer = layer(&["1 request / hour from first call"]).subject(SubjectFrom::header("x-api-key"));
    let call = |key: Option<&str>| {
        let request =
            Request::post("/greeter.Greeter/SayHello").header("content-type", "application/grpc+proto");
        let request = key.into_iter().fold(request, |request, key| request.header("x-api-key", key));
        layer.layer(service_fn(hello)).oneshot(request.body(()).unwrap())
    };
    assert_eq!(call(Some("anna")).await.unwrap().headers().get("grpc-status"), None);
    let denied = call(Some("anna")).await.unwrap();
    let header = |name: &str| denied.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(denied.status(), StatusCode::OK);
    assert_eq!(header("grpc-status"), Some("8"));
    assert_eq!(header("content-type"), Some("application/grpc"));
    let message = "Too Many Requests. We only allow 1 requests per hour.";
    assert_eq!(header("grpc-message"), Some(message));
    let pushback: u64 = header("grpc-retry-pushback-ms").unwrap().parse().unwrap();
    assert!((3_590_000..=3_600_000).contains(&pushback), "{pushback}");
    assert!(http_body::Body::is_end_stream(denied.body()));
    let nobody = call(None).await.unwrap();
    assert_eq!(nobody.headers().get("grpc-status").unwrap(), "3");
}

/// While the store is down, the policy's `when_store_fails` decides.
#[tokio::test]
async fn when_store_fails_decides_while_the_store_is_down() {
    let redis = RedisServer::start();
    let store = redis.url().parse().unwrap();
    let policy = |name, mode| Policy::new(name, ["20 / hour"]).unwrap().with_when_store_fails(mode);
    let limiter = Limiter::builder()
        .with_policy(policy("closed", WhenStoreFails::Closed))
        .and_then(|builder| builder.with_policy(policy("open", WhenStoreFails::Open)))
        .and_then(|builder| builder.with_policy(policy("local", WhenStoreFails::Local)))
        .and_then(|builder| builder.store_at(&store))
        .unwrap()
        .build();
    let of = |name: &str| RateLimitLayer::new(limiter.policy(name).unwrap());
    assert_eq!(status(&of("closed"), get("/")).await, StatusCode::OK);
    drop(redis);
    let closed = of("closed").layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert_eq!(closed.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(closed.headers()["retry-after"], "1");
    assert_eq!(closed.headers()["content-type"], "application/problem+json");
    let body = closed.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["type"], "urn:tollway:store-unavailable");
    assert!(problem["retry"].is_string(), "{problem}");
    let call = Request::post("/x").header("content-type", "application/grpc").body(()).unwrap();
    let closed = of("closed").layer(service_fn(hello)).oneshot(call).await.unwrap();
    assert_eq!(closed.headers()["grpc-status"], "14");
    assert_eq!(status(&of("open"), get("/")).await, StatusCode::OK);
    // A tenth of twenty.
    let local = of("local");
    let answered = [status(&local, get("/")).await, status(&local, get("/")).await];
    assert_eq!(answered, [StatusCode::OK; 2]);
    let denied = local.layer(service_fn(hello)).oneshot(get("/")).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(denied.headers().contains_key("retry-after"), "{:?}", denied.headers());
}

#[tokio::test]
async fn an_empty_response_stays_empty() {
    let nothing = async |_: Request<()>| Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()));
    let answer = layer(&["1 / hour"]).layer(service_fn(nothing)).oneshot(get("/")).await.unwrap();
    assert!(http_body::Body::is_end_stream(answer.body()));
}
