//! Token costs: estimated before, settled from the answer.

use std::time::Duration;

use tollway::Limiter;
use tollway_client::ApiClient;

use crate::{limiter, vendor};

async fn used(limiter: &Limiter) -> u64 {
    limiter.usage("test").await.unwrap().limits[0].used
}

/// Settling happens in the background.
async fn until_used(limiter: &Limiter, wanted: u64) {
    let mut last = 0;
    for _ in 0..500 {
        last = used(limiter).await;
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{last} tokens are used, not {wanted}");
}

fn limits(url: &str, dialect: &str) -> Limiter {
    let keys =
        format!("dialect = \"{dialect}\"\nlimits = [\"100k tokens / hour\"]\ncost = {{ tokens = 5000 }}");
    limiter(url, &keys)
}

/// B3: the tokens of an answer replace the estimate. The vendor's input is a quarter of the bytes, its output as long.
#[tokio::test]
async fn answers_of_every_vendor_settle_the_estimate() {
    let body =
        serde_json::json!({ "messages": [{ "role": "user", "content": "x".repeat(400) }], "max_tokens": 7 });
    let body = body.to_string();
    let input = u64::try_from(body.len().div_ceil(4)).unwrap();
    let cases = [
        ("openai", "/v1/chat/completions", input + 7),
        ("anthropic", "/v1/messages", input + 7),
        // Its limit is one of input tokens.
        ("gemini", "/v1beta/models/pro:generateContent", input),
    ];
    for (dialect, path, tokens) in cases {
        let vendor = vendor(&["1000 / second"], dialect).await;
        let limiter = limits(&vendor.url(), dialect);
        let client = ApiClient::of(&limiter, "test").unwrap();
        let response = client.post(path).body(body.clone()).send().await.unwrap();
        assert_eq!(used(&limiter).await, 5_000, "{dialect}: until the answer is read, the estimate counts");
        response.bytes().await.unwrap();
        until_used(&limiter, tokens).await;
    }
}

/// B3: the usage of a stream is read as it passes.
#[tokio::test]
async fn streamed_answers_settle_the_estimate() {
    for (dialect, path) in [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")] {
        let vendor = vendor(&["1000 / second"], dialect).await;
        let limiter = limits(&vendor.url(), dialect);
        let client = ApiClient::of(&limiter, "test").unwrap();
        let body = serde_json::json!({
            "messages": [], "max_tokens": 7, "stream": true, "stream_options": { "include_usage": true }
        });
        let body = body.to_string();
        let input = u64::try_from(body.len().div_ceil(4)).unwrap();
        let mut response = client.post(path).body(body).send().await.unwrap();
        let mut chunks = 0;
        while response.chunk().await.unwrap().is_some() {
            chunks += 1;
        }
        assert!(chunks > 0);
        until_used(&limiter, input + 7).await;
    }
}

/// B3: what a cancelled call may have used stays spent.
#[tokio::test]
async fn a_stream_that_is_dropped_keeps_the_estimate() {
    let vendor = vendor(&["1000 / second"], "openai").await;
    let limiter = limits(&vendor.url(), "openai");
    let client = ApiClient::of(&limiter, "test").unwrap();
    let body = serde_json::json!({ "stream": true, "messages": [] }).to_string();
    drop(client.post("/v1/chat/completions").body(body).send().await.unwrap());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(used(&limiter).await, 5_000);
}

/// A refused call did no work.
#[tokio::test]
async fn a_refused_call_gives_its_tokens_back() {
    let vendor = vendor(&["1 / hour"], "openai").await;
    let limiter = limits(&vendor.url(), "openai");
    let client = ApiClient::of(&limiter, "test").unwrap();
    client.get("/").send().await.unwrap();
    until_used(&limiter, 5_000).await;
    client.get("/").max_retries(0).send().await.unwrap_err();
    until_used(&limiter, 5_000).await;
}
