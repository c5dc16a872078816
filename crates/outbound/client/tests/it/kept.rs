//! `keep`: a part of the vendor's quota is left to people.

use std::time::Duration;

use tollway_client::ApiClient;
use tollway_core::Timestamp;

use crate::{limiter_of, vendor};

const RATE: &str =
    "rate = { initial = 100, min = 1, max = 200, increase_step = 0.000001, decrease_factor = 0.5 }";

/// Calls one after the other until calls are held back, at most `most`. How many the vendor has accepted.
async fn calls_until_held(client: &ApiClient, most: usize) -> usize {
    let mut accepted = 0;
    while accepted < most
        && client.get("/").max_time(Duration::from_secs(3)).max_retries(0).send().await.is_ok()
    {
        accepted += 1;
    }
    accepted
}

/// B5: however the rate is found, and whatever window the vendor shows, calls stop at the kept part without a refusal.
#[tokio::test]
async fn calls_stop_at_the_part_that_is_kept() {
    let cases = [
        ("10 / hour", "ietf", "limits = [\"1000 / hour\"]"),
        ("10 / hour", "ietf", "limits = [\"1000 / minute\"]"),
        ("10 / hour", "x-ratelimit", RATE),
        ("10 / hour", "github", "rate = \"auto\""),
        ("10 / day", "hubspot", "rate = \"auto\""),
    ];
    for (limit, dialect, keys) in cases {
        let vendor = vendor(&[limit], dialect).await;
        let config = format!(
            "[apis.test]\nprofile = \"none\"\nbase_url = \"{}\"\nkeep = \"50 %\"\n{keys}",
            vendor.url()
        );
        let client = ApiClient::of(&limiter_of(&config), "test").unwrap();
        assert_eq!(calls_until_held(&client, 20).await, 5, "{dialect} {keys}");
        assert_eq!(vendor.counts().refused, 0, "{dialect} {keys}");
        client.limiter().flush().await;
        let left = client.limiter().snapshot().await.unwrap();
        assert!(left.cooldown_until.unwrap_or(Timestamp::EPOCH) > left.now, "all processes stop: {left:?}");
    }
}

/// Another api of the same program uses all of its quota.
#[tokio::test]
async fn quotas_of_other_apis_are_used_to_their_end() {
    let (kept, whole) = (vendor(&["4 / hour"], "github").await, vendor(&["4 / hour"], "github").await);
    let limiter = limiter_of(&format!(
        "[apis.kept]\nbase_url = \"{}\"\nrate = \"auto\"\nkeep = \"50 %\"\n[apis.whole]\nbase_url = \"{}\"\nrate = \"auto\"",
        kept.url(),
        whole.url()
    ));
    assert_eq!(calls_until_held(&ApiClient::of(&limiter, "kept").unwrap(), 9).await, 2);
    assert_eq!(calls_until_held(&ApiClient::of(&limiter, "whole").unwrap(), 4).await, 4);
    assert_eq!(whole.counts().refused, 0);
}

/// What the vendor said is left is known to every process of the store.
#[tokio::test]
async fn what_is_left_at_the_vendor_is_shown() {
    let vendor = vendor(&["100 / hour"], "github").await;
    let limiter = limiter_of(&format!("[apis.test]\nbase_url = \"{}\"\nrate = \"auto\"", vendor.url()));
    assert_eq!(limiter.quotas_left("test").await.unwrap(), []);
    let client = ApiClient::of(&limiter, "test").unwrap();
    for _ in 0..3 {
        client.get("/").send().await.unwrap();
    }
    client.limiter().flush().await;
    let left = limiter.quotas_left("test").await.unwrap();
    assert_eq!((left.len(), left[0].limit, left[0].remaining), (1, Some(100), 97));
    assert!(left[0].resets_at.unwrap() > client.limiter().snapshot().await.unwrap().now);
}
