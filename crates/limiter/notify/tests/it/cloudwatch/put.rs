//! Calls of `PutMetricData`, decoded as CloudWatch would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ciborium::Value;
use tollway::Timestamp;
use tollway_aws::Access;
use tollway_notify::cloudwatch::{CloudWatchConfig, Delivery, Publisher};
use tollway_testkit::servers::{CapturedAnswer, CapturedRequest, CapturingServer};

use crate::cloudwatch::samples;

const CBOR: &str = "Content-Type: application/cbor\r\nsmithy-protocol: rpc-v2-cbor";

/// Answers the first requests with these heads, and then takes everything.
fn cloudwatch(failures: &'static [&'static str]) -> CapturingServer {
    let asked = Arc::new(AtomicU64::new(0));
    CapturingServer::start(move |_| {
        let index = asked.fetch_add(1, Ordering::Relaxed) as usize;
        let taken = format!("200 OK\r\n{CBOR}");
        match failures.get(index) {
            // `{"__type": "..."}` in CBOR.
            Some(failure) => {
                let (head, kind) = failure.split_once('|').unwrap();
                let kind = Value::Map(vec![("__type".into(), kind.into())]);
                let mut body = Vec::new();
                ciborium::into_writer(&kind, &mut body).unwrap();
                CapturedAnswer::new(&format!("{head}\r\n{CBOR}"), body)
            }
            None => CapturedAnswer::new(&taken, [0xa0]),
        }
    })
}

fn publisher_config(server: &CapturingServer) -> CloudWatchConfig {
    CloudWatchConfig {
        namespace: "AdobePDFProcessing".to_owned(),
        region: Some("eu-west-1".to_owned()),
        endpoint: Some(server.endpoint()),
        ..CloudWatchConfig::new(Delivery::Put)
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_map()?.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
}

/// Name, limit and value of each figure.
fn figures(request: &CapturedRequest) -> Vec<(String, String, f64)> {
    assert_eq!(request.target, "POST /service/GraniteServiceVersion20100801/operation/PutMetricData");
    assert!(request.header("authorization").is_some_and(|signed| signed.contains("/eu-west-1/monitoring/")));
    let body: Value = ciborium::from_reader(&request.body[..]).unwrap();
    assert_eq!(field(&body, "Namespace").unwrap().as_text(), Some("AdobePDFProcessing"));
    let data = field(&body, "MetricData").unwrap().as_array().unwrap();
    assert!(data.len() <= 1_000, "what one call may have");
    let figure = |datum: &Value| {
        let text = |value: &Value, name| field(value, name).unwrap().as_text().unwrap().to_owned();
        let dimensions = field(datum, "Dimensions").and_then(Value::as_array).cloned().unwrap_or_default();
        let limit = dimensions.iter().find(|dimension| text(dimension, "Name") == "Limit");
        let value = field(datum, "Value").and_then(Value::as_float).unwrap_or(f64::NAN);
        (text(datum, "MetricName"), limit.map(|limit| text(limit, "Value")).unwrap_or_default(), value)
    };
    data.iter().map(figure).collect()
}

async fn publisher(server: &CapturingServer) -> Publisher {
    let access = Access { key: "test".to_owned(), secret: "test".to_owned() };
    Publisher::with_access(&publisher_config(server), access).await.unwrap()
}

/// G10: the same figures by calls.
#[tokio::test]
async fn calls_have_the_documented_names_and_dimensions() {
    let server = cloudwatch(&[]);
    let lost = publisher(&server).await.publish(&samples().await, Timestamp::from_secs(1_793_628_300)).await;
    assert_eq!(lost, 0);
    let found: Vec<_> = server.requests().iter().flat_map(figures).collect();
    for wanted in [
        ("RateLimiterTokensAcquired", "TPM", 3_750.0),
        ("RateLimiterTokensAvailable", "RPD", 24.0),
        ("RateLimiterAcquisitionFailures", "RPM", 1.0),
        ("RateLimiterStoreDegraded", "", 0.0),
    ] {
        let is_wanted =
            |(name, limit, value): &&(String, String, f64)| (name.as_str(), limit.as_str(), *value) == wanted;
        assert!(found.iter().any(|figure| is_wanted(&figure)), "{wanted:?} in {found:?}");
    }
}

/// What CloudWatch does not take is sent with the next figures; what it refuses is dropped and counted.
#[tokio::test]
async fn failed_call_is_repeated_and_refused_one_counted() {
    let server =
        cloudwatch(&["503 Busy|InternalServiceFault", "200 OK|none", "400 Bad|InvalidParameterValue"]);
    let mut publisher = publisher(&server).await;
    let samples = samples().await;
    assert_eq!(publisher.publish(&samples, Timestamp::from_secs(1)).await, 0);
    let waiting = publisher.waiting();
    assert!(waiting > 5, "{waiting}");
    assert_eq!(publisher.publish(&samples, Timestamp::from_secs(2)).await, 0);
    assert_eq!(publisher.waiting(), 0);
    let [first, second] = &server.requests()[..] else { panic!("two calls") };
    let (first, second) = (figures(first), figures(second));
    assert!(second.len() > first.len() && second[..first.len()].iter().zip(&first).all(|(a, b)| a.0 == b.0));
    let gauges = publisher.publish(&samples, Timestamp::from_secs(3)).await;
    assert_eq!(
        gauges as usize,
        second.len() - first.len(),
        "as many as the second time, and all of them refused"
    );
    assert_eq!(publisher.waiting(), 0);
}
