//! What people see: the snapshot, metrics, incidents.

use tollway::metrics::prometheus_text;
use tollway_client::ApiClient;

use crate::{limiter, vendor};

const RATE: &str =
    "rate = { initial = 100, min = 1, max = 200, increase_step = 0.000001, decrease_factor = 0.5 }";

/// D4: rate, tokens and cooldown, as a snapshot and for Prometheus.
#[tokio::test]
async fn rate_and_cooldown_are_shown() {
    let vendor = vendor(&["1 / hour"], "http").await;
    let limiter = limiter(&vendor.url(), RATE);
    let client = ApiClient::of(&limiter, "test").unwrap();
    let before = client.limiter().snapshot().await.unwrap();
    assert_eq!((before.current_rate, before.tokens, before.cooldown_until), (Some(100.0), Some(1), None));
    client.get("/").send().await.unwrap();
    client.get("/").max_retries(0).send().await.unwrap_err();
    let after = client.limiter().snapshot().await.unwrap();
    assert!((50.0..50.1).contains(&after.current_rate.unwrap()), "{after:?}");
    assert!(after.cooldown_until.unwrap() > after.now);
    let text = prometheus_text(&limiter.samples().await);
    assert!(text.contains("tollway_api_rate{api=\"test\"} 50"), "{text}");
    assert!(text.contains("tollway_api_refusals_total{api=\"test\",kind=\"rate\"} 1\n"), "{text}");
    assert!(text.contains("tollway_api_cooldown_seconds{api=\"test\"} "), "{text}");
    assert!(!text.contains("tollway_api_cooldown_seconds{api=\"test\"} 0\n"), "{text}");
    assert!(!text.contains("tollway_api_ceiling{"), "{text}");
}

/// G11: a refusal although the calls were within the limits that are known is an incident; one that finds an unknown limit
/// is not.
#[tokio::test]
async fn a_refusal_within_known_limits_is_an_incident() {
    for (keys, incidents) in [("limits = [\"1000 / hour\"]", 1), (RATE, 0)] {
        let vendor = vendor(&["1 / hour"], "http").await;
        let limiter = limiter(&vendor.url(), keys);
        let client = ApiClient::of(&limiter, "test").unwrap();
        client.get("/").send().await.unwrap();
        client.get("/").max_retries(0).send().await.unwrap_err();
        let kept = limiter.incidents();
        assert_eq!(kept.len(), incidents, "{keys}");
        for incident in kept {
            assert!(incident.said.contains("429 rate"), "{}", incident.said);
            assert_eq!((incident.limits[0].used, incident.recent.len()), (2, 2));
        }
    }
}
