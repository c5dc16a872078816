//! The same call through the other two ways in, and on a thread without a runtime.

use std::io::Read;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reqwest_middleware::ClientBuilder;
use tollway_client::{
    ApiLayer, ApiLimiter, ApiMiddleware, CallError, CallFailure, CallOptions, ClientError, blocking,
};
use tower::{Layer, Service, ServiceExt};

use crate::{limiter, vendor};

const KEYS: &str = "limits = [\"1000 / second\"]";

#[tokio::test]
async fn middleware_retries_and_reports() {
    let vendor = vendor(&["1 / second"], "http").await;
    let limits = ApiLimiter::new(&limiter(&vendor.url(), KEYS), "test").unwrap();
    let client = ClientBuilder::new(reqwest::Client::new()).with(ApiMiddleware::new(limits)).build();
    for _ in 0..2 {
        let response = client.post(vendor.url()).body("hello").send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.url().as_str()),
            (200, &*format!("{}/", vendor.url()))
        );
    }
    assert!(vendor.counts().refused >= 1, "{:?}", vendor.counts());
    let options = CallOptions::new().max_retries(0);
    let mut error = None;
    while error.is_none() {
        let request = client.post(vendor.url()).body("hello").with_extension(options.clone());
        error = request.send().await.err();
    }
    let reqwest_middleware::Error::Middleware(error) = error.unwrap() else { panic!("not ours") };
    let error = error.downcast::<CallError>().unwrap();
    assert!(matches!(error.failure, CallFailure::Refused), "{error}");
}

#[tokio::test]
async fn layer_retries_requests_with_bodies_that_can_be_cloned() {
    let vendor = vendor(&["1 / second"], "http").await;
    let limits = ApiLimiter::new(&limiter(&vendor.url(), KEYS), "test").unwrap();
    let http: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut client = ApiLayer::new(limits.clone()).layer(http.clone());
    for _ in 0..2 {
        let request = Request::post(format!("{}/v1/users", vendor.url())).body(Full::from("hello")).unwrap();
        let response = client.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    assert!(vendor.counts().refused >= 1, "{:?}", vendor.counts());
    let mut once = ApiLayer::without_retries(limits).layer(http);
    let mut error = None;
    while error.is_none() {
        let request = Request::post(vendor.url()).body(Full::from("hello")).unwrap();
        error = once.ready().await.unwrap().call(request).await.err();
    }
    assert!(matches!(error.unwrap().failure, CallFailure::CannotRepeat));
}

#[test]
fn blocking_client_works_on_a_plain_thread() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let vendor = runtime.block_on(vendor(&["1 / second"], "http"));
    let client = blocking::ApiClient::of(&limiter(&vendor.url(), KEYS), "test").unwrap();
    for _ in 0..2 {
        let response = client.post("/v1/users").json(&["hello"]).send().unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.json::<serde_json::Value>().unwrap().is_object());
    }
    assert!(client.snapshot().unwrap().current_rate.is_none());
    assert!(vendor.counts().refused >= 1, "{:?}", vendor.counts());
}

/// Every method, and every attempt of a call.
#[test]
fn blocking_client_has_every_method_and_shows_attempts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let vendor = runtime.block_on(vendor(&["1000 / second"], "http"));
    let client = blocking::ApiClient::of(&limiter(&vendor.url(), KEYS), "test").unwrap();
    for (request, method) in [
        (client.put("/a"), Method::PUT),
        (client.patch("/a"), Method::PATCH),
        (client.delete("/a"), Method::DELETE),
        (client.get("/a"), Method::GET),
    ] {
        let response = request.options(CallOptions::new().max_retries(0)).send().unwrap();
        assert_eq!(response.attempts().len(), 1);
        assert_eq!(response.json::<serde_json::Value>().unwrap()["method"], method.as_str());
    }
    assert_eq!(client.head("/a").backoff_codes([429]).send().unwrap().status(), 200);
    client.flush();
}

/// A body is read while it is sent, and an answer while it arrives.
#[test]
fn blocking_client_streams_bodies_both_ways() {
    const BYTES: u64 = 300_000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let vendor = runtime.block_on(vendor(&["1 / day"], "http"));
    let client = blocking::ApiClient::of(&limiter(&vendor.url(), KEYS), "test").unwrap();
    let body = || std::io::repeat(b'x').take(BYTES);
    let mut text = String::new();
    client.put("/file").body_from(body()).send().unwrap().read_to_string(&mut text).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["received_bytes"], BYTES);
    let error = client.put("/file").body_from(body()).send().unwrap_err();
    assert!(matches!(error.failure, CallFailure::CannotRepeat), "{error}");
}

/// Programs return them as boxed errors, and services of tower need them so.
#[test]
fn errors_can_be_boxed() {
    fn boxed<E: Into<Box<dyn std::error::Error + Send + Sync>>>() {}
    boxed::<CallError>();
    boxed::<CallFailure>();
    boxed::<ClientError>();
}
