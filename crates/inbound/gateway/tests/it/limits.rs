//! Calls keep the limits, wait for them up to a deadline, and are told at once when their time is later.

use std::time::Duration;

use crate::running::{api, gateway};
use crate::vendor::RecordingVendor;

const REFUSED: &str =
    "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\nx-vendor: 1\r\ncontent-length: 4\r\n\r\nslow";

/// A2: what the limit has no room for in time is refused at once, with the exact time.
#[tokio::test]
async fn a_call_whose_time_is_later_is_refused_at_once() {
    let vendor = RecordingVendor::start().await;
    let gateway =
        gateway(&api(vendor.address, "rate = \"off\"\nlimits = [\"rph: 2 / hour from first call\"]")).await;
    for _ in 0..2 {
        assert_eq!(gateway.get("/test/a", "").await.status, 200);
    }
    let refused = gateway.get("/test/a", "").await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.header("tollway-refused-by"), "tollway; policy=test; limit=rph");
    let (seconds, millis): (u64, u64) =
        (refused.header("retry-after").parse().unwrap(), refused.header("retry-after-ms").parse().unwrap());
    assert!(seconds == millis.div_ceil(1_000) && (3_500..=3_600).contains(&seconds), "{refused:?}");
    assert_eq!(refused.header("x-should-retry"), "false");
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert!(refused.text().contains("\"limit\":\"rph\""), "{}", refused.text());
    assert_eq!(vendor.requests().len(), 2);
}

/// A call that fits within its wait is held back until its time.
#[tokio::test]
async fn a_call_waits_for_its_time_within_its_deadline() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, "rate = \"off\"\nlimits = [\"1 / 2s paced\"]")).await;
    assert_eq!(gateway.get("/test/a", "").await.status, 200);
    let refused = gateway.get("/test/a", "tollway-max-wait: 0.1\r\n").await;
    assert_eq!((refused.status, refused.header("x-should-retry")), (429, ""), "{refused:?}");
    let sdk = gateway.get("/test/a", "x-stainless-read-timeout: 1.2\r\n").await;
    assert_eq!(sdk.status, 429, "it would give up before its time: {sdk:?}");
    let waited = gateway.get("/test/a", "tollway-max-wait: 30s\r\n").await;
    assert_eq!(waited.status, 200);
    let timing = waited.header("server-timing");
    let wait: f64 =
        timing.split("wait;dur=").nth(1).and_then(|text| text.split(',').next()).unwrap().parse().unwrap();
    assert!(wait > 100.0, "{timing}");
    assert_eq!(vendor.requests().len(), 2);
}

/// Calls behind others of this gateway are told at once, too, when their turn cannot come in time.
#[tokio::test]
async fn a_call_behind_a_long_queue_is_refused_at_once() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1 / 4s paced\"]\nmax_retries = 0";
    let gateway = std::sync::Arc::new(gateway(&api(vendor.address, keys)).await);
    assert_eq!(gateway.get("/test/a", "").await.status, 200);
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let gateway = std::sync::Arc::clone(&gateway);
            tokio::spawn(async move { gateway.get("/test/a", "").await.status })
        })
        .collect();
    // They come over connections of their own: until they have queued, this call is refused for another reason, or waits.
    let refused = loop {
        let refused = gateway.get("/test/a", "tollway-max-wait: 10s\r\n").await;
        if refused.header("tollway-refused-by") == "tollway; queue" {
            break refused;
        }
    };
    let millis: u64 = refused.header("retry-after-ms").parse().unwrap();
    assert!(refused.status == 429 && (10_001..60_000).contains(&millis), "{refused:?}");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A refusal of the vendor is sent again within the wait; the last one passes as it is, and says whose it is.
#[tokio::test]
async fn a_vendors_refusal_is_retried_and_the_last_one_passes() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1000 / second\"]\nmax_retries = 1\ndialect = \"http\"";
    let gateway = gateway(&api(vendor.address, keys)).await;
    vendor.answer_next(&[REFUSED]);
    let answered = gateway.request("POST", "/test/a", "", b"once").await;
    assert_eq!((answered.status, answered.header("tollway-refused-by")), (200, ""), "{answered:?}");
    assert!(
        vendor.requests().iter().all(|request| request.ends_with("once")) && vendor.requests().len() == 2
    );
    vendor.answer_next(&[REFUSED, REFUSED]);
    let refused = gateway.request("POST", "/test/a", "", b"twice").await;
    assert_eq!((refused.status, refused.text().as_str(), refused.header("x-vendor")), (429, "slow", "1"));
    assert_eq!(refused.header("tollway-refused-by"), "vendor; dialect=http");
    assert_eq!(
        (refused.header("retry-after"), refused.header("retry-after-ms")),
        ("1", ""),
        "the vendor's own"
    );
    assert_eq!(vendor.requests().len(), 4);
}

/// A streamed body is sent once: the vendor's refusal passes.
#[tokio::test]
async fn a_body_that_was_not_kept_is_sent_once() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1000 / second\"]\nmax_retries = 3\ndialect = \"http\"";
    let gateway = gateway(&api(vendor.address, keys)).await;
    vendor.answer_next(&[REFUSED]);
    let refused = gateway.request("POST", "/test/a", "", &vec![b'x'; 1_100_000]).await;
    assert_eq!((refused.status, vendor.requests().len()), (429, 1), "{refused:?}");
}

/// D4: the estimate is what the request asks for, the actual cost what the answer says.
#[tokio::test]
async fn tokens_are_estimated_from_the_request_and_settled_from_the_answer() {
    let vendor = RecordingVendor::start().await;
    let config = format!(
        "{}[policies.test]\nlimits = [\"1000 tokens / hour from first call\"]\n",
        api(
            vendor.address,
            "rate = \"off\"\npolicy = \"test\"\ncost = { tokens = \"bytes / 4\" }\n[apis.test.gateway]\naccount = \"one\""
        )
    );
    let gateway = gateway(&config).await;
    let body = format!("{{\"max_tokens\": 900, \"pad\": \"{}\"}}", "x".repeat(80));
    assert_eq!(gateway.request("POST", "/test/usage", "", body.as_bytes()).await.status, 200);
    let used = async || gateway.limiter.usage("test").await.unwrap().limits[0].used;
    // Settling is done behind the answer.
    let settled = async {
        while used().await != 17 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::running::LONG, settled).await.unwrap();
    let above = gateway.request("POST", "/test/usage", "tollway-cost: tokens=990\r\n", body.as_bytes()).await;
    assert_eq!(
        (above.status, above.header("tollway-refused-by")),
        (429, "tollway; policy=test; limit=tokens_per_hour"),
        "{above:?}"
    );
}

/// Two credentials do not share a limit, unless the config says that they are of one account.
#[tokio::test]
async fn every_credential_has_its_own_account_unless_the_config_joins_them() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1 / hour from first call\"]\n";
    let apart = gateway(&api(vendor.address, keys)).await;
    let ask = async |gateway: &crate::running::Running, key: &str| {
        gateway.get("/test/a", &format!("authorization: Bearer {key}\r\n")).await.status
    };
    assert_eq!([ask(&apart, "a").await, ask(&apart, "b").await, ask(&apart, "a").await], [200, 200, 429]);
    let joined =
        gateway(&api(vendor.address, &format!("{keys}[apis.test.gateway]\naccount = \"one\""))).await;
    assert_eq!([ask(&joined, "a").await, ask(&joined, "b").await], [200, 429]);
}

/// A caller's own share is a policy of its own: one that has used it up holds no other back.
#[tokio::test]
async fn a_caller_has_its_own_share_of_the_vendors_limit() {
    let vendor = RecordingVendor::start().await;
    let config = format!(
        "{}[policies.team]\nlimits = [\"1 / hour from first call\"]\n",
        api(
            vendor.address,
            "rate = \"off\"\nlimits = [\"100 / hour from first call\"]\n[apis.test.gateway]\npolicy = \"team\""
        )
    );
    let gateway = gateway(&config).await;
    let ask = async |team: &str| gateway.get("/test/a", &format!("tollway-subject: {team}\r\n")).await;
    assert_eq!([ask("a").await.status, ask("b").await.status], [200, 200]);
    let refused = ask("a").await;
    assert_eq!(
        (refused.status, refused.header("tollway-refused-by")),
        (429, "tollway; policy=team; limit=requests_per_hour")
    );
    assert_eq!(vendor.requests().len(), 2);
}
