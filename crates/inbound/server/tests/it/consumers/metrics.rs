//! `GET /metrics` of a server with consumers.

use tollway::core::Period;

use super::bank::{Bank, Place, READ, only};

/// C1, G10, T23: consumers are counted by period and separately from anonymous callers; no id creates a series.
#[test]
fn consumer_metrics_have_periods_and_no_ids() {
    let mut bank = Bank::at(Place::memory(), "anonymous_per_hour = 1", "");
    let metrics = |bank: &Bank| {
        let token = format!("authorization: Bearer {READ}\r\n");
        bank.running.admin().get("/metrics", &token).body
    };
    let series = |text: &str| {
        text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    bank.record("c", only(Period::Hour, 1));
    bank.record("d", [-1, 2, 100, -1, -1, -1]);
    assert_eq!((bank.calls("c", 3), bank.calls("d", 3)), (vec![200, 429, 429], vec![200, 200, 429]));
    assert_eq!([(); 2].map(|()| bank.call_with("").status), [200, 429]);
    let before = metrics(&bank);
    assert_eq!(bank.calls("invented", 2), [200, 200], "unlimited and not counted");
    let after = metrics(&bank);
    assert_eq!(series(&before), series(&after));
    for line in [
        r#"tollway_decisions_total{policy="consumers",outcome="granted"} 3"#,
        r#"tollway_decisions_total{policy="consumers",outcome="denied"} 3"#,
        r#"RateLimiterTokensAcquired{policy="consumers",limit="per_hour"} 3"#,
        r#"RateLimiterTokensAcquired{policy="consumers",limit="per_minute"} 2"#,
        r#"RateLimiterAcquisitionFailures{policy="consumers",limit="per_hour"} 2"#,
        r#"RateLimiterAcquisitionFailures{policy="consumers",limit="per_minute"} 1"#,
        r#"tollway_decisions_total{policy="anonymous",outcome="denied"} 1"#,
    ] {
        assert!(after.lines().any(|told| told == line), "{line}\n{after}");
    }
    assert!(!after.contains("of_callers") && !after.contains("per_month"), "{after}");
}
