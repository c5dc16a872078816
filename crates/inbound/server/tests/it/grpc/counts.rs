//! How descriptors count: as one take, with hits, under the most specific rule.

use std::thread;

use crate::messages::{OK, OVER_LIMIT, RateLimitResponse, descriptor, question};
use crate::running::Running;

const CONFIG: &str = r#"
    [policies.per_ip]
    limits = ["3 / hour from first call"]
    [policies.per_path]
    limits = ["5 / hour from first call"]
    [policies.tokens]
    limits = ["100 tokens / hour from first call", "1000 / hour from first call"]
    [policies.strict]
    limits = ["1 / hour from first call"]

    [[server.descriptors]]
    domain = "edge"
    keys = ["remote_address"]
    policy = "per_ip"
    subject = "address:{remote_address}"
    [[server.descriptors]]
    domain = "edge"
    keys = ["path"]
    policy = "per_path"
    [[server.descriptors]]
    domain = "edge"
    keys = ["path=/admin*"]
    policy = "strict"
    [[server.descriptors]]
    domain = "edge"
    keys = ["path=/health"]
    unlimited = true
    [[server.descriptors]]
    domain = "edge"
    keys = ["path=/old"]
    blocked = true
    [[server.descriptors]]
    domain = "edge"
    keys = ["user", "model"]
    policy = "tokens"
    subject = "{user}@{model}"
    unit = "tokens"
"#;

fn overall(responses: &[RateLimitResponse]) -> Vec<i32> {
    responses.iter().map(|response| response.overall_code).collect()
}

/// B10: each subject gets exactly its limit.
#[test]
fn limit_is_exact_per_subject() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    for address in ["192.0.2.1", "192.0.2.2"] {
        let request = question([descriptor(&[&format!("remote_address={address}")])]);
        let responses = [(); 5].map(|()| envoy.ask(&request));
        assert_eq!(overall(&responses), [OK, OK, OK, OVER_LIMIT, OVER_LIMIT]);
        assert_eq!(responses[4].codes(), [OVER_LIMIT]);
    }
}

/// B10: many concurrent connections get exactly the limit.
#[test]
fn many_connections_share_the_limit() {
    let server = Running::of(&CONFIG.replace("3 / hour", "100 / hour"));
    let granted: usize = thread::scope(|scope| {
        let client = || {
            let mut envoy = server.envoy();
            let request = question([descriptor(&["remote_address=192.0.2.1"])]);
            (0..40).filter(|_| envoy.ask(&request).overall_code == OK).count()
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(granted, 100);
}

/// I2, I3: a request that one descriptor denies charges none of the others.
#[test]
fn all_descriptors_are_one_take() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let both = question([descriptor(&["remote_address=192.0.2.1"]), descriptor(&["path=/a"])]);
    for _ in 0..3 {
        assert_eq!(envoy.ask(&both).codes(), [OK, OK]);
    }
    for _ in 0..10 {
        let denied = envoy.ask(&both);
        assert_eq!((denied.overall_code, denied.codes()), (OVER_LIMIT, vec![OVER_LIMIT, OK]));
        assert_eq!(denied.statuses[1].limit_remaining, 2);
    }
    let path = question([descriptor(&["path=/a"])]);
    assert_eq!(overall(&[(); 3].map(|()| envoy.ask(&path))), [OK, OK, OVER_LIMIT]);
}

#[test]
fn hits_default_to_the_requests_then_to_one() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let left = |response: &RateLimitResponse| response.statuses[0].limit_remaining;
    let path = || descriptor(&["path=/a"]);
    assert_eq!(left(&envoy.ask(&question([path()]))), 4);
    assert_eq!(left(&envoy.ask(&question([path()]).with_hits(2))), 2);
    assert_eq!(left(&envoy.ask(&question([path().with_hits(1)]).with_hits(9))), 1);
    let too_many = envoy.ask(&question([path()]).with_hits(2));
    assert_eq!((too_many.overall_code, left(&too_many)), (OVER_LIMIT, 1));
}

/// A descriptor with 0 hits only reads usage, and denies the request if nothing is left.
#[test]
fn zero_hits_only_read_usage() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let look = || descriptor(&["remote_address=192.0.2.1"]).with_hits(0);
    for _ in 0..10 {
        let response = envoy.ask(&question([look()]));
        assert_eq!((response.overall_code, response.statuses[0].limit_remaining), (OK, 3));
    }
    assert_eq!(
        envoy.ask(&question([descriptor(&["remote_address=192.0.2.1"])]).with_hits(3)).overall_code,
        OK
    );
    let response = envoy.ask(&question([look(), descriptor(&["path=/a"])]));
    assert_eq!((response.overall_code, response.codes()), (OVER_LIMIT, vec![OVER_LIMIT, OK]));
    assert_eq!(envoy.ask(&question([descriptor(&["path=/a"])])).statuses[0].limit_remaining, 4);
}

/// A cost above the limit is OVER_LIMIT, not an error, which most proxies would let through.
#[test]
fn cost_above_the_limit_is_over_limit() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    for hits in [6, 1 << 60, u64::MAX] {
        let response = envoy.ask(&question([descriptor(&["path=/a"]).with_hits(hits)]));
        assert_eq!((response.overall_code, response.codes()), (OVER_LIMIT, vec![OVER_LIMIT]), "{hits}");
    }
    assert_eq!(envoy.ask(&question([descriptor(&["path=/a"])])).statuses[0].limit_remaining, 4);
}

#[test]
fn most_specific_rule_is_applied() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let mut ask = |path: &str| envoy.ask(&question([descriptor(&[&format!("path={path}")])]));
    assert_eq!(overall(&[(); 3].map(|()| ask("/admin/x"))), [OK, OVER_LIMIT, OVER_LIMIT]);
    assert_eq!(overall(&[(); 2].map(|()| ask("/admin/y"))), [OK, OVER_LIMIT], "another subject");
    assert_eq!(overall(&[(); 9].map(|()| ask("/health"))), [OK; 9]);
    assert_eq!(overall(&[ask("/old")]), [OVER_LIMIT]);
}

/// Descriptors without a rule are not limited, as in Envoy's own service.
#[test]
fn descriptor_without_a_rule_is_not_limited() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let unknown = [
        question([descriptor(&["colour=red"])]),
        question([descriptor(&["remote_address=192.0.2.1", "path=/a"])]),
        question([descriptor(&["Remote_Address=192.0.2.1"])]),
        crate::messages::RateLimitRequest {
            domain: "elsewhere".to_owned(),
            ..question([descriptor(&["remote_address=192.0.2.1"])])
        },
    ];
    for request in &unknown {
        for _ in 0..10 {
            let response = envoy.ask(request);
            assert_eq!((response.overall_code, response.codes()), (OK, vec![OK]), "{request:?}");
            assert_eq!(response.statuses[0].current_limit, None);
        }
    }
    let blocked =
        question([descriptor(&["path=/old"]), descriptor(&["path=/a"]), descriptor(&["colour=red"])]);
    assert_eq!(envoy.ask(&blocked).codes(), [OVER_LIMIT, OK, OK]);
    assert_eq!(envoy.ask(&question([descriptor(&["path=/a"])])).statuses[0].limit_remaining, 4);
}

/// Hits may count in another unit; the request itself counts as one.
#[test]
fn hits_count_in_the_unit_of_the_rule() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let mut ask = |hits| envoy.ask(&question([descriptor(&["user=ann", "model=large"]).with_hits(hits)]));
    assert_eq!(ask(60).overall_code, OK);
    assert_eq!(ask(60).overall_code, OVER_LIMIT);
    assert_eq!(ask(40).overall_code, OK);
    let used = server.server.limiter().usage("tokens").subject("ann@large").now().unwrap();
    let used: Vec<u64> = used.limits.iter().map(|limit| limit.used).collect();
    assert_eq!(used, [100, 2]);
}

/// Two descriptors with the same policy and subject both count.
#[test]
fn descriptors_of_the_same_account_add_up() {
    let server = Running::of(CONFIG);
    let mut envoy = server.envoy();
    let address = || descriptor(&["remote_address=192.0.2.1"]);
    let response = envoy.ask(&question([address(), address()]));
    assert_eq!((response.codes(), response.statuses[0].limit_remaining), (vec![OK, OK], 1));
    let response = envoy.ask(&question([address(), address()]));
    assert_eq!((response.codes(), response.statuses[0].limit_remaining), (vec![OVER_LIMIT; 2], 1));
}

/// B10: gRPC and HTTP share the usage of a policy and subject.
#[test]
fn grpc_and_http_share_usage() {
    let server = Running::of(CONFIG);
    let request = question([descriptor(&["remote_address=192.0.2.1"])]);
    assert_eq!(server.envoy().ask(&request).overall_code, OK);
    let mut client = server.client();
    let take = r#"{"policy":"per_ip","subject":"address:192.0.2.1"}"#;
    assert_eq!([(); 3].map(|()| client.take(take).status), [200, 200, 429]);
    assert_eq!(server.envoy().ask(&request).overall_code, OVER_LIMIT);
}
