//! Administration: every route with every credential.

use std::path::Path;

use tollway_server::{ListenAddress, ServeError, Token};

use crate::running::{Running, Setup};

const POLICIES: &str = r#"
    [policies.api]
    limits = ["5 requests / hour"]
    [consumers]
    records = "sqlite::memory:"
    anonymous_per_hour = -1
"#;
const READ: &str = "read-read-read-read";
const WRITE: &str = "write-write-write-write";

/// Every route of the administration, with the access it needs and the status with that access.
const ROUTES: [(&str, &str, &str, Needs, u16); 33] = [
    ("GET", "/health", "", Needs::Nothing, 200),
    ("GET", "/ready", "", Needs::Nothing, 200),
    ("GET", "/openapi.json", "", Needs::Nothing, 200),
    ("GET", "/metrics", "", Needs::Read, 200),
    ("GET", "/v1/policies", "", Needs::Read, 200),
    ("GET", "/v1/usage?policy=api", "", Needs::Read, 200),
    ("POST", "/v1/reset", r#"{"policy":"api"}"#, Needs::Write, 204),
    ("PUT", "/v1/policies/api/limits/requests_per_hour", r#"{"to":"9 requests / hour"}"#, Needs::Write, 200),
    ("DELETE", "/v1/policies/api/limits/requests_per_hour", "", Needs::Write, 200),
    ("GET", "/health/redis", "", Needs::Nothing, 404),
    ("GET", "/obp/v3.1.0/management/rate-limiting", "", Needs::Read, 200),
    ("GET", "/obp/v6.0.0/management/consumers/c/consumer/call-limits", "", Needs::Read, 200),
    ("GET", "/obp/v6.0.0/management/consumers/c/consumer/rate-limits", "", Needs::Read, 200),
    ("POST", "/obp/v6.0.0/management/consumers/c/consumer/rate-limits", RECORD, Needs::Write, 201),
    ("PUT", NO_SUCH_RECORD, RECORD, Needs::Write, 404),
    ("DELETE", NO_SUCH_RECORD, "", Needs::Write, 404),
    ("GET", "/obp/v6.0.0/management/consumers/c/active-rate-limits", "", Needs::Read, 200),
    ("GET", "/obp/v6.0.0/management/consumers/c/active-rate-limits/2026-06-01-12", "", Needs::Read, 200),
    ("GET", "/obp/v6.0.0/management/consumers/c/call-counters", "", Needs::Read, 200),
    ("DELETE", "/obp/v6.0.0/management/consumers/c/call-counters", "", Needs::Write, 204),
    ("GET", "/obp/v6.0.0/management/consumers/c/blocked", "", Needs::Read, 200),
    ("PUT", "/obp/v6.0.0/management/consumers/c/blocked", r#"{"blocked": true}"#, Needs::Write, 200),
    ("GET", "/v1/consumers", "", Needs::Read, 200),
    ("GET", "/v1/consumers/c/records", "", Needs::Read, 200),
    ("POST", "/v1/consumers/c/records", r#"{"limits": {"per_minute": 100}}"#, Needs::Write, 201),
    ("PUT", "/v1/consumers/c/records/67e55044-10b1-426f-9247-bb680e5fe0c8", NO_LIMITS, Needs::Write, 404),
    ("DELETE", "/v1/consumers/c/records/67e55044-10b1-426f-9247-bb680e5fe0c8", "", Needs::Write, 404),
    ("GET", "/v1/consumers/c/limits", "", Needs::Read, 200),
    ("GET", "/v1/consumers/c/limits/2026-06-01T12:30:00Z", "", Needs::Read, 200),
    ("GET", "/v1/consumers/c/usage", "", Needs::Read, 200),
    ("DELETE", "/v1/consumers/c/usage", "", Needs::Write, 204),
    ("GET", "/v1/consumers/c/blocked", "", Needs::Read, 200),
    ("PUT", "/v1/consumers/c/blocked", r#"{"blocked": true}"#, Needs::Write, 200),
];

const RECORD: &str = r#"{"from_date": "2020-01-01T00:00:00Z", "to_date": "2099-12-31T23:59:59Z",
    "per_second_call_limit": "-1", "per_minute_call_limit": "100", "per_hour_call_limit": "-1",
    "per_day_call_limit": "-1", "per_week_call_limit": "-1", "per_month_call_limit": "-1"}"#;
const NO_LIMITS: &str = r#"{"limits": {}}"#;
const NO_SUCH_RECORD: &str =
    "/obp/v6.0.0/management/consumers/c/consumer/rate-limits/67e55044-10b1-426f-9247-bb680e5fe0c8";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    Nothing,
    Read,
    Write,
}

fn token(folder: &Path, secret: &str) -> Option<Token> {
    let path = folder.join(secret);
    std::fs::write(&path, secret).unwrap();
    Some(Token::File(path))
}

/// A server with these tokens. It reads them only when it starts.
fn server(read: bool, write: bool) -> Running {
    try_server(read, write, None).unwrap()
}

fn try_server(read: bool, write: bool, admin: Option<ListenAddress>) -> Result<Running, ServeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::of(POLICIES);
    setup.config.read_token = token(folder.path(), READ).filter(|_| read);
    setup.config.write_token = token(folder.path(), WRITE).filter(|_| write);
    setup.timeouts.wrong_token = std::time::Duration::ZERO;
    setup.config.admin = admin.or(setup.config.admin);
    setup.try_start()
}

/// T22: every route without a token, with a wrong one, a read token and a write token.
#[test]
fn every_route_checks_its_required_token() {
    for (read, write) in [(true, true), (true, false), (false, true), (false, false)] {
        let server = server(read, write);
        let mut admin = server.admin();
        let guarded = read || write;
        for (method, path, body, needs, status) in ROUTES {
            for (shown, right) in [
                ("", None),
                ("authorization: Bearer wrong-wrong-wrong-wrong\r\n", None),
                ("authorization: Basic cmVhZC1yZWFkLXJlYWQtcmVhZA==\r\n", None),
                ("authorization: Bearer \r\n", None),
                ("authorization: Bearer read-read-read-read\r\n", Some(Needs::Read).filter(|_| read)),
                ("authorization: bearer write-write-write-write\r\n", Some(Needs::Write).filter(|_| write)),
            ] {
                let expected = match (needs, guarded, right) {
                    (Needs::Nothing, _, _) | (Needs::Read, false, _) => status,
                    (Needs::Write, false, _) => 403,
                    (_, true, None) => 401,
                    (needs, true, Some(right)) if right < needs => 403,
                    (_, true, Some(_)) => status,
                };
                let answer = admin.ask(method, path, shown, body);
                assert_eq!(
                    answer.status, expected,
                    "{method} {path} with {shown:?}, of read {read} write {write}"
                );
                assert_eq!(answer.status == 401, answer.header("www-authenticate").is_some());
            }
        }
    }
}

/// T22: `ROUTES` above is complete.
#[test]
fn route_table_of_the_test_is_complete() {
    let document = server(false, false).admin().get("/openapi.json", "").json();
    let paths = document["paths"].as_object().unwrap().values();
    let routes: usize = paths.map(|methods| methods.as_object().unwrap().len()).sum();
    assert_eq!(routes, ROUTES.len(), "add the new route to the ones above");
}

/// T22: the decision listener serves no administration, and the administration listener no decisions.
#[test]
fn listeners_do_not_serve_each_others_routes() {
    let server = Running::of(POLICIES);
    let (mut client, mut admin) = (server.client(), server.admin());
    for (method, path, body, _, _) in ROUTES {
        if path != "/openapi.json" {
            assert_eq!(client.ask(method, path, "", body).status, 404, "{method} {path}");
        }
    }
    for path in
        ["/v1/take", "/v1/begin", "/v1/settle", "/v1/done", "/v1/return", "/v1/renew", "/v1/authorize"]
    {
        assert_eq!(admin.post(path, "{}").status, 404, "{path}");
    }
}

/// T22: without a token, administration must listen locally; there is no default secret.
#[test]
fn administration_without_a_token_must_be_local() {
    let everywhere = || Some(ListenAddress::Tcp("0.0.0.0:0".parse().unwrap()));
    let refused = try_server(false, false, everywhere()).err();
    assert!(matches!(refused, Some(ServeError::OpenAdministration(_))), "{refused:?}");
    drop(try_server(true, false, everywhere()).unwrap());
}

/// T22: a token that can be guessed is rejected.
#[test]
fn short_token_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::of(POLICIES);
    setup.config.read_token = token(folder.path(), "secret");
    let refused = setup.try_start().err().unwrap().to_string();
    assert!(refused.contains("fewer than 16") && !refused.contains("characters: secret"), "{refused}");
}

/// Administration shows usage, sets limits and resets usage.
#[test]
fn usage_is_shown_and_limits_are_set() {
    let server = server(false, true);
    let (mut client, mut admin) = (server.client(), server.admin());
    let bearer = format!("authorization: Bearer {WRITE}\r\n");
    client.take(r#"{"policy":"api","subject":"ann","cost":{"requests":5}}"#);
    let usage = admin.get("/v1/usage?policy=api&subject=ann", &bearer).json();
    assert_eq!(
        (usage["limits"][0]["used"].as_u64(), usage["limits"][0]["remaining"].as_u64()),
        (Some(5), Some(0))
    );

    let path = "/v1/policies/api/limits/requests_per_hour";
    let set = admin.ask("PUT", path, &bearer, r#"{"to": "7"}"#);
    assert_eq!(set.json()["limit"], "7 requests / hour");
    assert_eq!(client.take(r#"{"policy":"api","subject":"ann"}"#).json()["limits"][0]["remaining"], 1);
    let policies = admin.get("/v1/policies", &bearer).json();
    assert_eq!(policies["policies"][0]["limits"][0]["limit"], "7 requests / hour");

    admin.ask("POST", "/v1/reset", &bearer, r#"{"policy":"api","subject":"ann"}"#);
    assert_eq!(client.take(r#"{"policy":"api","subject":"ann"}"#).json()["limits"][0]["remaining"], 6);
    assert_eq!(admin.ask("DELETE", path, &bearer, "").json()["limit"], "5 requests / hour");
    for (path, to, status) in [
        ("/v1/policies/apy/limits/requests_per_hour", "7", 404),
        ("/v1/policies/api/limits/requests_per_our", "7", 404),
        (path, "7 requests / minute", 422),
        (path, "many", 422),
        (path, "0 requests / hour", 422),
    ] {
        let answer = admin.ask("PUT", path, &bearer, &format!("{{\"to\":\"{to}\"}}"));
        assert_eq!(answer.status, status, "{path} to {to}: {answer:?}");
    }

    let stopped = admin.ask("PUT", path, &bearer, r#"{"to": "0"}"#).json();
    assert_eq!((&stopped["limit"], &stopped["stopped"]), (&"5 requests / hour".into(), &true.into()));
    let shown = admin.get("/v1/policies", &bearer).json();
    assert_eq!(shown["policies"][0]["limits"][0]["stopped"], true);
    assert_eq!(client.take(r#"{"policy":"api","subject":"ann"}"#).status, 429);
    assert_eq!(admin.ask("DELETE", path, &bearer, "").json()["stopped"], false);
    assert_eq!(client.take(r#"{"policy":"api","subject":"ann"}"#).json()["limits"][0]["remaining"], 3);
}
