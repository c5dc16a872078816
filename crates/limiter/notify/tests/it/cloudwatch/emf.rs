//! Lines of the embedded metric format, checked by its rules.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tollway::Timestamp;
use tollway_notify::cloudwatch::{CloudWatchConfig, Delivery, Publisher};

use crate::cloudwatch::samples;

/// A writer that the test reads.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What AWS's specification of the format demands of one line; the metrics that it describes.
pub(crate) fn check_line(line: &str) -> Vec<(String, Value)> {
    assert!(line.len() <= 256 * 1024, "a log event has at most 256 KiB");
    let line: Value = serde_json::from_str(line).unwrap();
    let root = line.as_object().unwrap();
    let about = root["_aws"].as_object().unwrap();
    assert!(about["Timestamp"].is_u64(), "milliseconds since 1970: {about:?}");
    let mut found = Vec::new();
    for directive in about["CloudWatchMetrics"].as_array().unwrap() {
        let namespace = directive["Namespace"].as_str().unwrap();
        assert!((1..=255).contains(&namespace.len()) && !namespace.starts_with("AWS/"));
        for set in directive["Dimensions"].as_array().unwrap() {
            let set = set.as_array().unwrap();
            assert!(set.len() <= 30, "at most 30 dimensions");
            for name in set {
                let value =
                    root[name.as_str().unwrap()].as_str().expect("the value of a dimension is a text");
                assert!((1..=1_024).contains(&value.len()), "{value:?}");
            }
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()), "at most 100 metrics");
        for metric in metrics {
            let (name, unit) = (metric["Name"].as_str().unwrap(), metric["Unit"].as_str().unwrap());
            assert!(["Count", "Milliseconds", "None"].contains(&unit), "{unit}");
            let is_valid = |value: &Value| value.is_number();
            let values = &root[name];
            let list = values.as_array().is_some_and(|list| list.len() <= 100 && list.iter().all(is_valid));
            assert!(values.is_number() || list, "{name}: {values}");
            found.push((name.to_owned(), values.clone()));
        }
    }
    found
}

/// G10: the documented names, tagged by limit.
#[tokio::test]
async fn lines_follow_the_rules_and_have_the_documented_names() {
    let config = CloudWatchConfig {
        dimensions: vec![("Environment".to_owned(), "test".to_owned())],
        ..CloudWatchConfig::new(Delivery::Emf)
    };
    let written = Written::default();
    let mut publisher = Publisher::to(&config, written.clone());
    let samples = samples().await;
    assert_eq!(publisher.publish(&samples, Timestamp::from_secs(1_793_628_300)).await, 0);
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let line_of = |limit: &str| {
        let tag = format!("\"Limit\":\"{limit}\"");
        text.lines().find(|line| line.contains(&tag)).unwrap_or_else(|| panic!("no {limit} in {text}"))
    };
    let metrics: Vec<_> = text.lines().map(check_line).collect();
    assert!(metrics.concat().iter().any(|(name, _)| name == "RateLimiterStoreThrottled"), "{text}");
    for (limit, acquired, available) in [("RPM", 1, 0), ("TPM", 3_750, 246_250), ("RPD", 1, 24)] {
        let line: Value = serde_json::from_str(line_of(limit)).unwrap();
        assert_eq!(
            (&line["RateLimiterTokensAcquired"], &line["Policy"]),
            (&acquired.into(), &"gemini".into())
        );
        assert_eq!(line["RateLimiterTokensAvailable"], available);
        assert_eq!(
            (&line["Environment"], &line["_aws"]["Timestamp"]),
            (&"test".into(), &1_793_628_300_000_u64.into())
        );
        let failures = line.get("RateLimiterAcquisitionFailures");
        assert_eq!(failures, (limit == "RPM").then_some(&1.into()), "the limit that denied: {line}");
    }
    written.0.lock().unwrap().clear();
    publisher.publish(&samples, Timestamp::from_secs(1_793_628_360)).await;
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(
        !text.contains("TokensAcquired") && text.contains("TokensAvailable"),
        "only gauges repeat: {text}"
    );
}
