//! A gateway that learns lets everything pass, and says what it saw and what it could not see.

use std::sync::Arc;

use tollway_gateway::Gateway;
use tollway_server::{ListenAddress, Listeners, ServerConfig};

use crate::running::{LONG, Running, api};
use crate::vendor::RecordingVendor;

async fn start(config: &str) -> (Arc<Gateway>, Running) {
    let config = tollway::Config::parse(config).unwrap_or_else(|error| panic!("{error}"));
    let limiter = tollway::Limiter::builder().config(&config).unwrap().build();
    let mut server = ServerConfig::gateway();
    server.listen = ListenAddress::Tcp(([127, 0, 0, 1], 0).into());
    let gateway = Arc::new(Gateway::learning(limiter, &server).await.unwrap());
    let listeners = Listeners::bind_gateway(&server).await.unwrap();
    let running = Running::serving(&gateway, listeners);
    (gateway, running)
}

/// What is said about a body is known when its connection has let go of it, which may be after its caller has it.
async fn learned(gateway: &Gateway, expected: &str) -> String {
    let told = async {
        loop {
            let learned = gateway.learned().unwrap();
            if learned.contains(expected) {
                return learned;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(LONG, told).await;
    in_time.unwrap_or_else(|_| panic!("{expected}\n{}", gateway.learned().unwrap()))
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_gateway_that_learns_limits_nothing() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1 / hour from first call\"]\n";
    let (gateway, running) = start(&api(vendor.address, keys)).await;
    let told = "HTTP/1.1 200 OK\r\nx-ratelimit-limit: 90\r\nx-ratelimit-remaining: 80\r\nx-ratelimit-reset: 42\r\ncontent-length: 2\r\n\r\nok";
    vendor.answer_next(&[told, told]);
    for _ in 0..3 {
        assert_eq!(running.get("/test/a", "").await.status, 200);
    }
    let learned = learned(&gateway, "\"90 requests / minute sliding\", # 2 answers told it").await;
    assert!(tollway::Config::parse(&learned).is_ok(), "{learned}");
    assert!(learned.contains("# Not seen: tokens."), "{learned}");
}

/// Limits that a vendor tells in bodies only, kinds of refusals, and tokens are read while the answer passes as it is.
#[tokio::test]
async fn bodies_are_read_while_they_pass() {
    let vendor = RecordingVendor::start().await;
    let (gateway, running) = start(&api(vendor.address, "rate = \"auto\"\ndialect = \"gemini\"")).await;
    let violation = r#"{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaValue": "50"}"#;
    let refusal = format!(
        r#"{{"error": {{"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{violation}]}}]}}}}"#
    );
    let usage =
        r#"{"usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 12, "totalTokenCount": 42}}"#;
    let json = "content-type: application/json\r\n";
    vendor.answer_next(&[
        &answer("429 Too Many Requests", json, &refusal),
        &answer("200 OK", json, usage),
        &answer("200 OK", "content-type: text/event-stream\r\n", &format!("data: {usage}\n\n")),
    ]);
    let refused = running.get("/test/a", "").await;
    assert_eq!((refused.status, refused.text()), (429, refusal));
    for _ in 0..2 {
        assert!(running.get("/test/a", "").await.text().contains(usage));
    }
    let learned = learned(
        &gateway,
        "# Used at most 42 tokens in a call, 84 in a minute, as `usage` of 2 answers tells.",
    )
    .await;
    assert!(tollway::Config::parse(&learned).is_ok(), "{learned}");
    for line in [
        "50 requests / day",
        "# Refused 1 calls (daily_quota)",
        "# Not seen: what 1 answers say about limits inside their streams, of which only `usage` was read.",
    ] {
        assert!(learned.contains(line), "{line}\n{learned}");
    }
    assert!(
        !learned.contains("Not seen: tokens") && !learned.contains("Not seen: a quota of a day"),
        "{learned}"
    );
}

#[tokio::test]
async fn what_could_not_be_read_is_named() {
    let vendor = RecordingVendor::start().await;
    let (gateway, running) = start(&api(vendor.address, "rate = \"auto\"\ndialect = \"http\"")).await;
    let long = format!("{{\"error\": \"{}\"}}", "x".repeat(100_000));
    vendor.answer_next(&[
        &answer("429 Too Many Requests", "content-encoding: gzip\r\n", "not really gzip"),
        &answer("500 Internal Server Error", "content-type: application/json\r\n", &long),
    ]);
    assert_eq!(running.get("/test/a", "").await.text(), "not really gzip");
    assert_eq!(running.get("/test/a", "").await.text(), long);
    let learned =
        learned(&gateway, "# Not seen: what 1 answers say behind the first 64 KiB of their bodies.").await;
    assert!(
        learned.contains("# Not seen: what 1 answers say in their bodies, which are compressed"),
        "{learned}"
    );
    assert!(learned.contains("# Refused 1 calls (rate)"), "{learned}");
}
