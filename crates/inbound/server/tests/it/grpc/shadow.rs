//! Shadow policies report denials and deny nothing.

use crate::messages::{Header, Kind, OK, OVER_LIMIT, RateLimitResponse, Status, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.enforced]
    limits = ["4 / hour from first call"]
    [policies.shadow]
    limits = ["2 / hour from first call"]
    shadow = true
    [policies.wider]
    limits = ["3 / hour from first call"]
    shadow = true
    [[server.descriptors]]
    domain = "edge"
    keys = ["enforced"]
    policy = "enforced"
    [[server.descriptors]]
    domain = "edge"
    keys = ["shadow"]
    policy = "shadow"
    [[server.descriptors]]
    domain = "edge"
    keys = ["wider"]
    policy = "wider"
"#;

/// The shadow policies that would deny, as reported to the service and to the proxy's log.
fn would_deny(response: &RateLimitResponse) -> Option<String> {
    let metadata =
        response.dynamic_metadata.as_ref().map(|metadata| match &metadata.fields["would_deny"].kind {
            Some(Kind::Text(text)) => text.clone(),
            other => panic!("{other:?}"),
        });
    let header = metadata.clone().map(|value| Header { key: "x-tollway-would-deny".to_owned(), value });
    assert_eq!(response.request_headers_to_add, Vec::from_iter(header));
    metadata
}

/// B9: a shadow policy is evaluated with the others, reported by name, and changes no enforced counter.
#[test]
fn shadow_policy_reports_denials_without_denying() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let request =
        question([descriptor(&["shadow=s"]), descriptor(&["enforced=e"]), descriptor(&["wider=w"])]);
    for (left, told) in [(3, None), (2, None), (1, Some("shadow")), (0, Some("shadow, wider"))] {
        let response = envoy.ask(&request);
        assert_eq!((response.overall_code, response.codes()), (OK, vec![OK; 3]));
        assert_eq!(response.statuses[1].limit_remaining, left);
        assert_eq!(would_deny(&response).as_deref(), told);
    }
    let denied = envoy.ask(&request);
    assert_eq!((denied.overall_code, denied.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT, OK]));
    let used = |policy: &str, subject: &str| {
        server.server.limiter().usage(policy).subject(subject).now().unwrap().limits[0].used
    };
    assert_eq!(used("enforced", "enforced=e"), 4);
    assert_eq!(used("shadow", "shadow=s"), 2);
    assert_eq!(used("wider", "wider=w"), 3);
}

/// B9: a shadow policy alone never denies and never fails, whatever the hits.
#[test]
fn shadow_policy_alone_never_denies() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let told: Vec<Option<String>> = (0..4)
        .map(|_| {
            let response = envoy.ask(&question([descriptor(&["shadow=s"])]));
            assert_eq!((response.overall_code, response.codes()), (OK, vec![OK]));
            would_deny(&response)
        })
        .collect();
    assert_eq!(told, [None, None, Some("shadow".to_owned()), Some("shadow".to_owned())]);
    for hits in [0, 100, u64::MAX] {
        let both = [descriptor(&["shadow=s"]).with_hits(hits), descriptor(&["enforced=e"])];
        let response = envoy.ask(&question(both));
        assert_eq!(response.codes(), [OK, OK], "{hits}");
        assert_eq!(would_deny(&response).as_deref(), Some("shadow"), "{hits}");
    }
}

/// B9: Envoy writes headers from every status that names a limit. The status of a shadow policy is only OK, with or without
/// hits, and configured headers do not show it either.
#[test]
fn status_of_a_shadow_policy_names_no_limit() {
    let chosen = "[server]\nheaders = [\"x-rate-limit\", \"ratelimit\"]";
    let server = Running::of(&CONFIG.replacen("[[server", &format!("{chosen}\n[[server"), 1));
    let mut envoy = server.envoy();
    let silent = Status { code: OK, ..Status::default() };
    for hits in [1, 1, 1, 0, 2] {
        let both = [descriptor(&["shadow=s"]).with_hits(hits), descriptor(&["enforced=e"])];
        let response = envoy.ask(&question(both));
        assert_eq!(response.statuses[0], silent, "{hits}");
        assert_eq!(response.statuses[1].current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(4));
        assert_eq!(response.header("x-rate-limit-limit"), Some("4"));
        assert!(!response.header("ratelimit").unwrap().contains("shadow"), "{response:?}");
    }
    assert_eq!(envoy.ask(&question([descriptor(&["enforced=e"])])).overall_code, OVER_LIMIT);
}
