//! A vendor that refuses although we kept to its limit.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use tollway::Limiter;

/// G11: the record has the time, the state of the bucket, the calls in flight and what was acquired last.
#[tokio::test]
async fn a_vendor_refusal_is_kept_with_its_evidence() {
    let limits = ["rpm: 5 / minute bucket", "tpm: 250k tokens / minute bucket"];
    let limiter = Limiter::builder().policy("gemini", limits).unwrap().api_policy("gemini").unwrap().build();
    let done = limiter.take("gemini").cost("tokens", 100).await.unwrap();
    drop(done);
    let other = limiter.take("gemini").cost("tokens", 2_000).await.unwrap();
    let refused = limiter.take("gemini").cost("tokens", 3_750).await.unwrap();
    let said = "429 RESOURCE_EXHAUSTED ".repeat(100);
    let incidents = refused.refused_by_vendor(&said).await;
    assert_eq!(incidents, limiter.incidents());
    let incident = &incidents[0];
    assert_eq!((incident.policy.as_str(), incident.in_flight, incident.degraded), ("gemini", 2, false));
    assert!(incident.said.starts_with("429 RESOURCE_EXHAUSTED") && incident.said.len() == 500);
    assert_eq!((incident.limits[0].name.as_str(), incident.limits[0].used), ("rpm", 3));
    assert!((5_800..=5_850).contains(&incident.limits[1].used), "{:?}", incident.limits[1]);
    let tokens: Vec<u64> = incident.recent.iter().map(|one| one.cost[1].1).collect();
    assert_eq!(tokens, [100, 2_000, 3_750]);
    assert_eq!(incident.recent[2].permit, refused.id());
    assert!(incident.at >= incident.recent[2].granted_at);
    drop((other, refused));
    let alone = limiter.take("gemini").cost("tokens", 1).await.unwrap();
    assert_eq!(alone.refused_by_vendor("429").await[0].in_flight, 1);
}

#[tokio::test]
async fn incidents_and_acquisitions_are_bounded() {
    let limiter =
        Limiter::builder().policy("busy", ["100k / minute"]).unwrap().api_policy("busy").unwrap().build();
    for number in 0..300 {
        let permit = limiter.take("busy").await.unwrap();
        let incident = permit.refused_by_vendor(&number.to_string()).await.remove(0);
        assert_eq!(incident.recent.last().unwrap().permit, permit.id());
        assert!(incident.recent.len() <= 64);
    }
    let kept = limiter.incidents();
    assert_eq!((kept.len(), kept[0].said.as_str(), kept[127].said.as_str()), (128, "172", "299"));
}
