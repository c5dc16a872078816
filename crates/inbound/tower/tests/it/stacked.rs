//! A layer around another: which headers each of them writes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollway::Limiter;
use tollway_tower::{HeaderChoice, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

fn layer(policy: &str, limit: &str) -> RateLimitLayer {
    let limiter = Limiter::builder().policy(policy, [limit]).unwrap().build();
    RateLimitLayer::new(limiter.policy(policy).unwrap())
}

async fn hello(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn get() -> Request<()> {
    Request::get("/").body(()).unwrap()
}

/// The value of a header; lines of the same name are joined to one list.
fn header<B>(answer: &Response<B>, name: &str) -> String {
    let lines: Vec<&str> = answer.headers().get_all(name).iter().map(|line| line.to_str().unwrap()).collect();
    lines.join(", ")
}

/// Limit and remaining. Both spellings of these headers show the same limit.
fn x_rate_limit<B>(answer: &Response<B>) -> [String; 2] {
    let shown = ["x-rate-limit-limit", "x-rate-limit-remaining"].map(|name| header(answer, name));
    assert_eq!(shown, ["x-ratelimit-limit", "x-ratelimit-remaining"].map(|name| header(answer, name)));
    shown
}

/// C5: a denial shows the refusing limit, whichever layers add headers.
#[tokio::test]
async fn a_denial_of_the_inner_layer_keeps_its_headers() {
    for outer in ["50 / minute", "50 / hour", "50 / day"] {
        let (outer, inner) = (layer("all", outer), layer("orders", "1 / hour from first call"));
        let service = outer.layer(inner.layer(service_fn(hello)));
        assert_eq!(service.clone().oneshot(get()).await.unwrap().status(), StatusCode::OK);
        let denied = service.oneshot(get()).await.unwrap();
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(x_rate_limit(&denied), ["1", "0"]);
        assert!(denied.headers().contains_key("retry-after"));
        assert!(
            header(&denied, "ratelimit").starts_with("\"requests_per_hour\";r=0;t="),
            "{:?}",
            denied.headers()
        );
    }
}

/// The same over gRPC, whose denials have HTTP's status 200.
#[tokio::test]
async fn a_grpc_denial_of_the_inner_layer_keeps_its_headers() {
    let (outer, inner) = (layer("all", "50 / minute"), layer("orders", "1 / hour from first call"));
    let service = outer.layer(inner.layer(service_fn(hello)));
    let call = || Request::post("/a.B/C").header("content-type", "application/grpc").body(()).unwrap();
    assert_eq!(x_rate_limit(&service.clone().oneshot(call()).await.unwrap()), ["50", "49"]);
    let denied = service.oneshot(call()).await.unwrap();
    assert_eq!(header(&denied, "grpc-status"), "8");
    assert_eq!(x_rate_limit(&denied), ["1", "0"]);
}

/// C5: the shortest period of all layers is shown, in any order, and every limit is in the lists.
#[tokio::test]
async fn a_grant_shows_the_shortest_period_of_all_layers() {
    let hour = || layer("orders", "30 / hour");
    let minute = || layer("all", "20 / minute");
    let day = || layer("ever", "90 / day");
    let inside = minute().layer(hour().layer(service_fn(hello))).oneshot(get()).await.unwrap();
    assert_eq!(x_rate_limit(&inside), ["20", "19"]);
    let policies = "\"requests_per_hour\";q=30;w=3600, \"all.requests_per_minute\";q=20;w=60";
    assert_eq!(header(&inside, "ratelimit-policy"), policies);
    let three = day().layer(hour().layer(minute().layer(service_fn(hello)))).oneshot(get()).await.unwrap();
    assert_eq!(x_rate_limit(&three), ["20", "19"]);
    let limits = header(&three, "ratelimit");
    for name in [
        "\"requests_per_minute\";r=19",
        "\"orders.requests_per_hour\";r=29",
        "\"ever.requests_per_day\";r=89",
    ] {
        assert!(limits.contains(name), "{name}: {limits}");
    }
}

/// A layer without headers leaves those of the other layer unchanged.
#[tokio::test]
async fn a_layer_without_headers_adds_none() {
    let quiet = layer("all", "20 / minute").headers(HeaderChoice::NONE);
    let answer = quiet.layer(layer("orders", "30 / hour").layer(service_fn(hello)));
    let answer = answer.oneshot(get()).await.unwrap();
    assert_eq!(x_rate_limit(&answer), ["30", "29"]);
    assert_eq!(header(&answer, "ratelimit-policy"), "\"requests_per_hour\";q=30;w=3600");
}

/// A denial of the service itself keeps its headers: it knows which of its limits refused.
#[tokio::test]
async fn a_denial_of_the_service_keeps_its_headers() {
    let denies = async |_: Request<()>| {
        let answer = Response::builder()
            .status(429)
            .header("x-rate-limit-limit", 7)
            .header("x-rate-limit-remaining", 0)
            .header("x-ratelimit-limit", 7)
            .header("x-ratelimit-remaining", 0);
        Ok::<_, Infallible>(answer.body(Body::default()).unwrap())
    };
    let answer = layer("all", "20 / minute").layer(service_fn(denies)).oneshot(get()).await.unwrap();
    assert_eq!(x_rate_limit(&answer), ["7", "0"]);
    assert_eq!(header(&answer, "ratelimit-policy"), "\"requests_per_minute\";q=20;w=60");
}
