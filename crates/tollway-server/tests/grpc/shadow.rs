//! Shadow policies: they say what they would have done, and do nothing.

use crate::messages::{Header, Kind, OK, OVER_LIMIT, RateLimitResponse, descriptor, question};
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

/// Which shadows are said to deny: to the service behind, and to the proxy's log.
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

/// B9: a shadow is judged beside the others, reported by name, and changes no counter that is enforced.
#[test]
fn a_shadow_says_what_it_would_do_and_does_nothing() {
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

/// B9: whatever is asked of a shadow, nothing fails and nothing is denied.
#[test]
fn a_shadow_alone_lets_everything_through() {
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
