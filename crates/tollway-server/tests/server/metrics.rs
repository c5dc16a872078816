//! `GET /metrics`: what was counted, for Prometheus.

use crate::running::Running;

const POLICIES: &str = "[policies.api]\nlimits = [\"2 requests / hour\"]";

/// G10, T23: takes are counted by policy and limit; whatever callers name, the series stay the same.
#[test]
fn takes_are_counted_and_subjects_are_no_labels() {
    let server = Running::of(POLICIES);
    let (mut client, mut admin) = (server.client(), server.admin());
    let series = |text: &str| {
        text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(client.take(r#"{"policy": "api", "subject": "ann"}"#).status, 200);
    let before = admin.get("/metrics", "");
    assert_eq!(
        (before.status, before.header("content-type")),
        (200, Some("text/plain; version=0.0.4; charset=utf-8"))
    );
    let mut granted = 1;
    for (subject, status) in [("ann", 200), ("ann", 429), (r"bob\u001b[31m", 200), (r"eve\r\nx 1", 200)] {
        let answer = client.take(&format!(r#"{{"policy": "api", "subject": "{subject}"}}"#));
        assert_eq!(answer.status, status, "{answer:?}");
        granted += u64::from(status == 200);
    }
    let after = admin.get("/metrics", "").body;
    assert_eq!(series(&before.body), series(&after));
    for line in [
        format!(r#"tollway_decisions_total{{policy="api",outcome="granted"}} {granted}"#),
        r#"tollway_decisions_total{policy="api",outcome="denied"} 1"#.to_owned(),
        format!(r#"RateLimiterTokensAcquired{{policy="api",limit="requests_per_hour"}} {granted}"#),
        r#"RateLimiterAcquisitionFailures{policy="api",limit="requests_per_hour"} 1"#.to_owned(),
    ] {
        assert!(after.lines().any(|told| told == line), "{line}\n{after}");
    }
}
