//! Tokens: for decisions, with names, and what a guess costs.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollway_server::{ClientTimeouts, ConfigWithServer, ListenerKind, ServeError};

use crate::call::{Connection, SHOULD_RATE_LIMIT, framed};
use crate::client::{Answer, Client};
use crate::redis_client::RedisClient;
use crate::running::{LONG, Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = ['100 requests / hour']\n[server]\ngrpc = '127.0.0.1:0'\nresp = '127.0.0.1:0'\n";
const TAKE: &str = r#"{"policy":"api"}"#;
const HOUR: Duration = Duration::from_secs(3_600);

/// How many answers to wrong tokens wait at once.
const DELAYS_MAX: usize = 16;

/// The lines of a config that name tokens in files of this folder; the text of a token is `NAME-NAME-NAME-NAME`.
fn tokens(folder: &TempDir, keys: &[(&str, &str)]) -> String {
    let line = |(key, name): &(&str, &str)| {
        let path = folder.path().join(name);
        std::fs::write(&path, secret(name)).unwrap();
        format!("{key} = 'file:{}'\n", path.display())
    };
    keys.iter().map(line).collect()
}

fn named(folder: &TempDir, name: &str, rights: &str) -> String {
    format!("[server.tokens.named.{name}]\nrights = '{rights}'\n{}", tokens(folder, &[("token", name)]))
}

fn secret(name: &str) -> String {
    [name; 4].join("-")
}

fn bearer(name: &str) -> String {
    format!("authorization: Bearer {}\r\n", secret(name))
}

fn with_delay(config: &str, wrong_token: Duration) -> Running {
    let mut setup = Setup::of(config);
    setup.timeouts = ClientTimeouts { wrong_token, ..ClientTimeouts::default() };
    setup.start()
}

fn status(client: &mut Client, path: &str, headers: &str) -> u16 {
    client.ask("POST", path, headers, TAKE).status
}

/// T22: with a token for decisions, HTTP and gRPC need it on every route but health and the description of the API.
#[test]
fn decisions_need_their_token() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("decisions", "decide"), ("read", "reads"), ("resp", "redis")];
    let config =
        format!("{POLICIES}[server.tokens]\n{}{}", tokens(&folder, &keys), named(&folder, "edge", "decide"));
    let server = with_delay(&config, Duration::ZERO);
    let mut client = server.client();
    for path in ["/v1/take", "/v1/begin", "/v1/settle", "/v1/done", "/v1/return", "/v1/renew", "/v1/observe"]
    {
        for (headers, expected) in [
            (String::new(), 401),
            (bearer("wrong"), 401),
            (bearer("reads"), 403),
            (bearer("redis"), 403),
            (format!("x-tollway-token: {}\r\n{}", secret("wrong"), bearer("decide")), 401),
        ] {
            assert_eq!(status(&mut client, path, &headers), expected, "{path} with {headers:?}");
        }
        for name in ["decide", "edge"] {
            for headers in [bearer(name), format!("x-tollway-token: {}\r\n", secret(name))] {
                assert!(
                    ![401, 403].contains(&status(&mut client, path, &headers)),
                    "{path} with {headers:?}"
                );
            }
        }
    }
    // Behind a proxy, `Authorization` is the client's.
    let proxied = format!("authorization: Bearer of-the-client\r\nx-tollway-token: {}\r\n", secret("edge"));
    assert_eq!(client.get("/v1/authorize?policy=api", &proxied).status, 200);
    assert_eq!(client.get("/v1/authorize?policy=api", "").status, 401);
    assert_eq!(client.get("/v1/authorize?policy=api", &format!("{proxied}{proxied}")).status, 400);
    assert_eq!(client.get("/openapi.json", "").status, 200);

    let message = framed(b"");
    for kind in [ListenerKind::Decisions, ListenerKind::Grpc] {
        let mut envoy = Connection::to(server.tcp(kind));
        assert_eq!(envoy.send(SHOULD_RATE_LIMIT, "application/grpc", message.clone()).status, Some(16));
        let health = envoy.send("/grpc.health.v1.Health/Check", "application/grpc", message.clone());
        assert_eq!(health.status, Some(0), "{health:?}");
        // The token gets as far as the message, which is empty.
        let token = [("x-tollway-token", secret("edge"))];
        let entered = envoy.send_with(SHOULD_RATE_LIMIT, "application/grpc", &token, message.clone());
        assert_eq!(
            (entered.status, entered.message.as_str()),
            (Some(3), "the domain is empty"),
            "{entered:?}"
        );
    }
    assert_eq!(RedisClient::of(&server).ask(&["AUTH", &secret("redis")]), "+OK\r\n");
}

/// T22: a named token has its rights, and a reload withdraws it, also on an open connection.
#[test]
fn named_token_is_withdrawn_by_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let with = |names: &[(&str, &str)]| {
        let named = names.iter().map(|(name, rights)| named(&folder, name, rights));
        format!(
            "{POLICIES}[server.tokens]\n{}{}",
            tokens(&folder, &[("write", "writes")]),
            named.collect::<String>()
        )
    };
    let server = with_delay(&with(&[("alice", "write"), ("robert", "read")]), Duration::ZERO);
    let mut admin = server.admin();
    let mut ask = |name: &str| {
        let read = admin.get("/v1/policies", &bearer(name)).status;
        (read, status(&mut admin, "/v1/reset", &bearer(name)))
    };
    assert_eq!([ask("alice"), ask("robert"), ask("mallory")], [(200, 204), (200, 403), (401, 401)]);
    server.server.reload(&ConfigWithServer::parse(&with(&[("robert", "write")])).unwrap()).unwrap();
    assert_eq!([ask("alice"), ask("robert"), ask("writes")], [(401, 401), (200, 204), (200, 204)]);
}

/// Two equal tokens are a mistake, because one of them allows more than its name says.
#[test]
fn equal_tokens_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (first, second) in [("read", "write"), ("decisions", "read"), ("resp", "write")] {
        let lines = tokens(&folder, &[(first, "same"), (second, "same")]);
        let refused = Setup::of(&format!("{POLICIES}[server.tokens]\n{lines}")).try_start().err();
        let Some(ServeError::Token { problem, .. }) = &refused else { panic!("{refused:?}") };
        assert!(problem.contains("the same as the token") && !problem.contains("same-same"), "{problem}");
    }
}

fn wrong_tokens(server: &Running, door: &str) -> usize {
    let metrics = server.admin().get("/metrics", &bearer("reads")).body;
    let name = format!("tollway_wrong_tokens_total{{door=\"{door}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

fn wait_for_wrong_tokens(server: &Running, door: &str, count: usize) {
    let begun = Instant::now();
    while wrong_tokens(server, door) < count {
        assert!(begun.elapsed() < LONG, "{count} wrong tokens are not counted");
    }
}

/// T22: a wrong token is counted and answered late; sixteen answers wait at most, and a right token never does.
#[test]
fn wrong_token_is_answered_late_and_a_right_one_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{POLICIES}[server.tokens]\n{}", tokens(&folder, &[("read", "reads")]));
    let server = with_delay(&config, HOUR);
    let guess = |mut client: Client| {
        client.write(format!("GET /v1/policies HTTP/1.1\r\nhost: test\r\n{}\r\n", bearer("wrong"))).unwrap();
        client
    };
    let _waiting: Vec<Client> = (0..DELAYS_MAX).map(|_| guess(server.admin())).collect();
    wait_for_wrong_tokens(&server, "administration", DELAYS_MAX);
    // Without a token is no guess.
    assert_eq!(server.admin().get("/v1/policies", "").status, 401);
    let beyond: Answer = guess(server.admin()).answer().unwrap();
    assert_eq!(beyond.status, 401);
    assert_eq!(server.admin().get("/v1/policies", &bearer("reads")).status, 200);
    assert_eq!(wrong_tokens(&server, "administration"), DELAYS_MAX + 1);
}

/// The same for the Redis protocol: requests behind a wrong token wait with it.
#[test]
fn wrong_auth_is_answered_late() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("read", "reads"), ("resp", "redis")];
    let config = format!("{POLICIES}[server.tokens]\n{}", tokens(&folder, &keys));
    let server = with_delay(&config, HOUR);
    let both = format!("AUTH wrong\r\nAUTH {}\r\n", secret("redis"));
    let guess = || {
        let mut client = RedisClient::of(&server);
        client.write(&both).unwrap();
        client
    };
    let _waiting: Vec<RedisClient> = (0..DELAYS_MAX).map(|_| guess()).collect();
    wait_for_wrong_tokens(&server, "resp", DELAYS_MAX);
    assert_eq!(RedisClient::of(&server).ask(&["AUTH", &secret("redis")]), "+OK\r\n");
    let mut beyond = guess();
    assert!(beyond.reply().starts_with("-WRONGPASS"));
    assert_eq!(beyond.reply(), "+OK\r\n");
    let mut many = RedisClient::of(&server);
    many.write("AUTH wrong\r\n".repeat(40)).unwrap();
    assert!((0..40).all(|_| many.reply().starts_with("-WRONGPASS")));
    assert_eq!(wrong_tokens(&server, "resp"), DELAYS_MAX + 41);
}
