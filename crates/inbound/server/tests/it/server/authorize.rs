//! `/v1/authorize`: allows or denies a request for a proxy.

use serde_json::json;

use crate::client::Client;
use crate::running::Running;

const BY_ADDRESS: &str = r#"
    [policies.api]
    limits = ["2 / hour from first call"]
    [policies.slots]
    limits = ["5 concurrent"]
"#;

fn ask(client: &mut Client, query: &str, headers: &str) -> u16 {
    client.get(&format!("/v1/authorize?{query}"), headers).status
}

/// B10, T17: without a trusted proxy, forwarding headers are ignored.
#[test]
fn untrusted_forwarding_header_is_ignored() {
    let server = Running::of(BY_ADDRESS);
    let mut client = server.client();
    let forged =
        |number: u8| format!("x-forwarded-for: 203.0.113.{number}\r\nforwarded: for=203.0.113.{number}\r\n");
    let statuses: Vec<u16> = (0..4).map(|number| ask(&mut client, "policy=api", &forged(number))).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// T17: behind a trusted proxy, clients are distinguished by the address that the proxy adds, not by their own.
#[test]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    for trust in ["trusted_hops = 1", "trusted_networks = [\"127.0.0.0/8\"]"] {
        let server = Running::of(&format!("{BY_ADDRESS}\n[server.address]\n{trust}"));
        let mut client = server.client();
        let from = |written: &str| format!("x-forwarded-for: 6.6.6.6, {written}\r\n");
        let mut statuses = |written: &str| [(); 3].map(|()| ask(&mut client, "policy=api", &from(written)));
        assert_eq!(statuses("203.0.113.7"), [200, 200, 429], "{trust}");
        assert_eq!(statuses("203.0.113.8"), [200, 200, 429], "{trust}");
        assert_eq!(
            statuses("::ffff:203.0.113.8"),
            [429, 429, 429],
            "{trust}: the same client in another notation"
        );
        assert_eq!(statuses("2001:db8::1"), [200, 200, 429], "{trust}");
        assert_eq!(statuses("2001:db8::2"), [429, 429, 429], "{trust}: the same network");
    }
}

/// T17: invalid bytes from a client do not hide the address that its proxy adds.
#[test]
fn invalid_forwarding_header_does_not_hide_the_client() {
    const QUOTE: &[u8] = b"for=\"6.6.6.6, for=203.0.113.7";
    for (header, seen) in [("x-forwarded-for", &b"\xff, 203.0.113.7"[..]), ("forwarded", QUOTE)] {
        for trust in ["trusted_hops = 1", "trusted_networks = [\"127.0.0.0/8\"]"] {
            let server =
                Running::of(&format!("{BY_ADDRESS}\n[server.address]\n{trust}\nheader = \"{header}\""));
            let mut client = server.client();
            let head = format!("GET /v1/authorize?policy=api HTTP/1.1\r\nhost: test\r\n{header}: ");
            client.write([head.as_bytes(), seen, b"\r\n\r\n"].concat()).unwrap();
            assert_eq!(client.answer().unwrap().status, 200);
            let used =
                |subject| server.server.limiter().usage("api").subject(subject).now().unwrap().limits[0].used;
            assert_eq!((used("address:203.0.113.7"), used("address:127.0.0.1")), (1, 0), "{header}, {trust}");
        }
    }
}

/// B9: a shadow policy denies nothing, is named to the proxy, and its figures are in no header.
#[test]
fn shadow_denial_is_named_in_a_header() {
    let server = Running::of("[policies.\"größe\"]\nlimits = [\"1 / hour from first call\"]\nshadow = true");
    let mut client = server.client();
    for told in [None, Some("gr%C3%B6%C3%9Fe"), Some("gr%C3%B6%C3%9Fe")] {
        let answer = client.get("/v1/authorize?policy=gr%C3%B6%C3%9Fe", "");
        assert_eq!((answer.status, answer.header("x-tollway-would-deny")), (200, told));
        assert_eq!((answer.header("x-rate-limit-remaining"), answer.header("ratelimit")), (None, None));
    }
}

/// RFC 9111: every changing response has `Cache-Control: no-store`.
#[test]
fn changing_responses_are_not_cacheable() {
    let server = Running::of(BY_ADDRESS);
    let (mut client, mut admin) = (server.client(), server.admin());
    for path in ["/v1/authorize?policy=api", "/v1/authorize?policy=slots"] {
        assert_eq!(client.get(path, "").header("cache-control"), Some("no-store"), "{path}");
    }
    for path in ["/health", "/health/redis", "/ready", "/metrics", "/v1/policies", "/v1/usage?policy=api"] {
        assert_eq!(admin.get(path, "").header("cache-control"), Some("no-store"), "{path}");
    }
    assert_eq!(client.get("/openapi.json", "").header("cache-control"), None);
}

/// C4: callers without credentials have 1,000 requests an hour per address by default. C5: a denial has the documented
/// message.
#[test]
fn callers_without_credentials_count_by_address() {
    let server = Running::of(&format!("{BY_ADDRESS}\n[server.authorize]\nsubject_headers = [\"X-Api-Key\"]"));
    let mut client = server.client();
    let key = |key: &str| format!("x-api-key: {key}\r\n");
    let statuses = [(); 3].map(|()| ask(&mut client, "policy=api", &key("ann")));
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(ask(&mut client, "policy=api", &key("bob")), 200);
    for call in 0..1_000 {
        assert_eq!(ask(&mut client, "policy=api", ""), 200, "call {call}");
    }
    let denied = client.get("/v1/authorize?policy=api", "");
    assert_eq!(denied.status, 429);
    let message = "Too Many Requests. We only allow 1000 requests per hour for anonymous access.";
    let told = denied.json();
    assert_eq!((&told["code"], &told["message"]), (&json!(429), &json!(message)));
    assert_eq!(
        (denied.header("x-rate-limit-limit"), denied.header("x-rate-limit-remaining")),
        (Some("1000"), Some("0"))
    );
    let denied = client.get("/v1/authorize?policy=api", &key("ann"));
    let message = "Too Many Requests. We only allow 2 requests per hour.";
    assert_eq!(denied.json()["message"], message);
}

/// C5: `X-RateLimit-*` are written if the config names them, with a Unix time in `-Reset`.
#[test]
fn x_ratelimit_headers_are_a_choice() {
    let config = r#"
        [policies.api]
        limits = ["2 / hour from first call"]
        [server]
        headers = ["x-ratelimit"]
    "#;
    let answer = Running::of(config).client().get("/v1/authorize?policy=api", "");
    let shown = ["x-ratelimit-limit", "x-ratelimit-remaining"].map(|name| answer.header(name));
    assert_eq!(shown, [Some("2"), Some("1")]);
    let reset: u64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(reset > 1_700_000_000, "{reset}");
    assert_eq!((answer.header("x-rate-limit-limit"), answer.header("ratelimit")), (None, None));
}

/// A key and an address never share a subject.
#[test]
fn api_key_and_address_have_different_subjects() {
    let config = r#"
        [policies.anonymous]
        limits = ["2 / hour from first call"]
        [server.authorize]
        subject_headers = ["x-api-key"]
    "#;
    let server = Running::of(config);
    let mut client = server.client();
    for forged in ["127.0.0.1", "address:127.0.0.1"] {
        assert_eq!(ask(&mut client, "policy=anonymous", &format!("x-api-key: {forged}\r\n")), 200);
    }
    assert_eq!([(); 3].map(|()| ask(&mut client, "policy=anonymous", "")), [200, 200, 429]);
}

/// B10: nginx understands only 401 and 403, so a denial can have those.
#[test]
fn denial_has_the_requested_status() {
    let server = Running::of(BY_ADDRESS);
    let mut client = server.client();
    assert_eq!([200, 200], [(); 2].map(|()| ask(&mut client, "policy=api&deny=403", "")));
    let denied = client.get("/v1/authorize?policy=api&deny=403", "");
    assert_eq!((denied.status, denied.header("x-tollway-status")), (403, Some("429")));
    assert_eq!(denied.header("x-tollway-body"), Some(denied.body.as_str()));
    assert_eq!(denied.json()["code"], 429, "the real status");
    let denied = client.get("/v1/authorize?deny=401&policy=api", "");
    // RFC 9110: every 401 has a challenge. No client knows this scheme.
    assert_eq!((denied.status, denied.header("www-authenticate")), (401, Some("Tollway")));
    let plain = client.post("/v1/authorize?policy=api&deny=429", "an ignored body");
    assert_eq!((plain.status, plain.header("x-tollway-body")), (429, None));
}

#[test]
fn invalid_authorize_request_explains_itself() {
    let server = Running::of(BY_ADDRESS);
    let mut client = server.client();
    for (query, status, word) in [
        ("", 400, "policy"),
        ("policy=apy", 404, "did you mean"),
        ("policy=api&deny=500", 400, "401, 403 or 429"),
        ("policy=api&polcy=api", 400, "not a parameter"),
        ("policy=slots", 422, "concurrency"),
    ] {
        let answer = client.get(&format!("/v1/authorize?{query}"), "");
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(answer.body.contains(word), "{query}: {answer:?}");
    }
}

/// A proxy and the server could read different ones of two headers, so neither counts; an empty one is absent.
#[test]
fn identity_header_that_occurs_twice_is_rejected() {
    let authorize = "[server.authorize]\nsubject_headers = [\"x-api-key\", \"x-user\"]";
    let server =
        Running::of(&format!("{BY_ADDRESS}\n[policies.anonymous]\nlimits = [\"2 / hour\"]\n{authorize}"));
    let mut client = server.client();
    for twice in [
        "x-api-key: ann\r\nx-api-key: bob\r\n",
        "x-api-key: ann\r\nX-Api-Key: ann\r\n",
        "x-api-key: ann\r\nx-api-key: \r\n",
        "x-api-key: ann\r\nx-user: u\r\nx-user: v\r\n",
    ] {
        let refused = client.get("/v1/authorize?policy=api", twice);
        assert_eq!(
            (refused.status, &refused.json()["type"]),
            (400, &json!("urn:tollway:bad-request")),
            "{twice}"
        );
        assert!(refused.body.contains("occurs twice"), "{refused:?}");
    }
    assert_eq!(ask(&mut client, "policy=api", "x-api-key: \r\nx-user: ann\r\n"), 200);
    let used = |policy, subject| {
        server.server.limiter().usage(policy).subject(subject).now().unwrap().limits[0].used
    };
    assert_eq!((used("api", "x-user:ann"), used("api", "x-api-key:")), (1, 0));
    assert_eq!(ask(&mut client, "policy=api", "x-api-key: \r\n"), 200);
    assert_eq!(used("anonymous", "address:127.0.0.1"), 1);
}

/// A misspelt policy is an error for callers without credentials, too.
#[test]
fn unknown_policy_is_404_for_anonymous_callers() {
    let server = Running::of(&format!("{BY_ADDRESS}\n[server.authorize]\nsubject_headers = [\"x-api-key\"]"));
    let mut client = server.client();
    for headers in ["x-api-key: ann\r\n", ""] {
        assert_eq!(ask(&mut client, "policy=apy", headers), 404, "{headers:?}");
    }
    assert_eq!(ask(&mut client, "policy=slots", ""), 200, "the anonymous policy applies");
}
