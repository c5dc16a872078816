//! Limits that Envoy sends with a descriptor.

use crate::messages::{OK, OVER_LIMIT, RateLimitRequest, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.p]
    limits = ["1 / hour from first call"]
    [[server.descriptors]]
    domain = "edge"
    keys = ["k"]
    policy = "p"
"#;

const DAY: i32 = 4;

/// B10: an override replaces the policy's limit for the whole descriptor, and usage survives a changed amount.
#[test]
fn override_limit_replaces_the_policys() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let mut ask =
        |limit, entries: &[&str]| envoy.ask(&question([descriptor(entries).with_limit(limit, DAY)]));
    let codes = [(); 4].map(|()| ask(3, &["k=v"]).overall_code);
    assert_eq!(codes, [OK, OK, OK, OVER_LIMIT]);
    let raised = ask(5, &["k=v"]);
    assert_eq!((raised.overall_code, raised.statuses[0].limit_remaining), (OK, 1));
    let limit = raised.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (5, DAY));
    assert_eq!(ask(3, &["k=w"]).statuses[0].limit_remaining, 2);
    assert_eq!(ask(3, &["colour=red"]).statuses[0].limit_remaining, 2, "a rule is not needed");
    assert_eq!(ask(0, &["k=x"]).overall_code, OVER_LIMIT);
    let used = server.server.limiter().usage("p").subject("k=v").now().unwrap();
    assert_eq!(used.limits[0].used, 0);
}

/// Two overrides of one unit for the same entries share their usage, and the stricter one applies.
#[test]
fn stricter_of_two_overrides_applies() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    for limits in [[3, 5], [5, 3]] {
        let entries = [format!("k={limits:?}")];
        let entries = [entries[0].as_str()];
        let both = question(limits.map(|limit| descriptor(&entries).with_limit(limit, DAY)));
        assert_eq!(envoy.ask(&both).statuses[0].limit_remaining, 1, "two hits of three");
        assert_eq!(envoy.ask(&both).overall_code, OVER_LIMIT);
    }
}

/// I3: an override is one take with the policies of other descriptors.
#[test]
fn override_limit_is_one_take_with_the_others() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let both = question([descriptor(&["k=v"]), descriptor(&["x=y"]).with_limit(9, DAY)]);
    assert_eq!(envoy.ask(&both).codes(), [OK, OK]);
    for _ in 0..3 {
        let denied = envoy.ask(&both);
        assert_eq!(denied.codes(), [OVER_LIMIT, OK]);
        assert_eq!(denied.statuses[1].limit_remaining, 8);
    }
}

#[test]
fn unknown_override_unit_is_an_error() {
    let server = Running::of(CONFIG);
    for unit in [0, 8, -1] {
        let (code, message) =
            server.envoy().ask_wrongly(&question([descriptor(&["k=v"]).with_limit(3, unit)]));
        assert_eq!(code, 3);
        assert!(message.contains("unit"), "{message}");
    }
    let elsewhere = RateLimitRequest {
        domain: "elsewhere".to_owned(),
        ..question([descriptor(&["k=v"]).with_limit(1, DAY)])
    };
    let mut envoy = server.envoy();
    assert_eq!([(); 3].map(|()| envoy.ask(&elsewhere).overall_code), [OK; 3], "the domain is not configured");
}
