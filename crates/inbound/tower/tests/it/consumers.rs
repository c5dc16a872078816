//! The layer for consumers, around plain services and over real connections.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tollway::Limiter;
use tollway_consumers::{
    ANONYMOUS_POLICY, Amounts, ConfigWithConsumers, ConsumerId, Draft, Gate, Records, RecordsError, Scope,
    Validity, Who, open_records, read_date, token_line,
};
use tollway_testkit::servers::RedisServer;
use tollway_tower::address::AddressRules;
use tollway_tower::{ConsumersLayer, HeaderChoice};
use tower::{Layer, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

/// An API with a consumers layer, and its records.
struct Api {
    layer: ConsumersLayer,
    records: Arc<dyn Records>,
    _folder: tempfile::TempDir,
}

/// A response: its status, headers and JSON.
struct Answer {
    status: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Api {
    /// Records in memory, consumers by header or by the token `s3cret` of `abc`, and these lines in `[consumers]`.
    fn new(store: &str, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens");
        std::fs::write(&tokens, token_line(&id("abc"), "s3cret")).unwrap();
        let config = ConfigWithConsumers::parse(&format!(
            "[store]\nurl = '{store}'\n[consumers]\nrecords = 'sqlite::memory:'\nheader = 'x-consumer-id'\n\
             tokens = {{ file = '{}' }}\n{lines}\n",
            tokens.display()
        ));
        let config = config.unwrap();
        let limiter = Limiter::builder().config(config.limits()).unwrap().build();
        let consumers = config.consumers().unwrap();
        let records = open_records(&consumers.records.expose()).unwrap();
        let gate = Gate::new(limiter.clone(), Arc::clone(&records), consumers).unwrap();
        let layer = ConsumersLayer::new(Arc::new(gate), Who::new(&consumers.who).unwrap());
        let layer = match limiter.policy(ANONYMOUS_POLICY) {
            Ok(anonymous) => layer.anonymous(anonymous, AddressRules::default(), peer),
            Err(_) => layer,
        };
        Self { layer, records, _folder: folder }
    }

    async fn record(&self, consumer: &str, amounts: [i64; 6]) {
        let (from, to) = ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z");
        let draft = Draft {
            consumer: id(consumer),
            // Records that are valid at the same time need different scopes.
            scope: Scope::new(Some(format!("{amounts:?}")), None, None).unwrap(),
            validity: Validity::new(read_date(from).unwrap(), read_date(to).unwrap()).unwrap(),
            amounts: Amounts::new(amounts).unwrap(),
        };
        self.records.create(draft).await.unwrap();
    }

    async fn ask(&self, header: (&str, &str)) -> Answer {
        self.send(Request::get("/").header(header.0, header.1).body(()).unwrap()).await
    }

    async fn send(&self, request: Request<()>) -> Answer {
        let response = self.layer.layer(service_fn(hello)).oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn left(&self) -> (u16, Option<&str>, Option<&str>) {
        (self.status, self.header("x-rate-limit-limit"), self.header("x-rate-limit-remaining"))
    }

    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

fn id(text: &str) -> ConsumerId {
    ConsumerId::new(text).unwrap()
}

/// Each test request carries its peer address in a header.
fn peer(request: &Parts) -> Option<IpAddr> {
    request.headers.get("test-peer").map_or("192.0.2.1", |peer| peer.to_str().unwrap()).parse().ok()
}

async fn hello(_: Request<()>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("\"hello\"")))
}

const ABC: (&str, &str) = ("x-consumer-id", "abc");

/// C1, C5: every response shows what remains of the shortest period, and a denial has the documented message.
#[tokio::test]
async fn a_consumer_is_limited_by_its_records() {
    let api = Api::new("memory:", "");
    api.record("abc", [-1, -1, 2, 3, -1, -1]).await;
    assert_eq!(api.ask(ABC).await.left(), (200, Some("2"), Some("1")));
    assert_eq!(api.ask(("authorization", "Bearer s3cret")).await.left(), (200, Some("2"), Some("0")));
    let denied = api.ask(ABC).await;
    assert_eq!(denied.left(), (429, Some("2"), Some("0")));
    assert_eq!(denied.message(), "Too Many Requests. We only allow 2 requests per hour for this Consumer.");
    assert_eq!((&denied.body["code"], &denied.body["limit"]), (&429.into(), &"per_hour".into()));
    assert!(denied.headers.contains_key("retry-after") && denied.headers.contains_key("ratelimit"));
    // A consumer without records has no limit: nothing is counted or shown.
    assert_eq!(api.ask(("x-consumer-id", "ben")).await.left(), (200, None, None));
}

/// C3: records are summed, and a change applies at once.
#[tokio::test]
async fn records_of_a_consumer_are_summed() {
    let api = Api::new("memory:", "");
    api.record("abc", [-1, 100, -1, -1, -1, -1]).await;
    assert_eq!(api.ask(ABC).await.left(), (200, Some("100"), Some("99")));
    api.record("abc", [-1, 50, -1, -1, 9_000, -1]).await;
    assert_eq!(api.ask(ABC).await.left(), (200, Some("150"), Some("148")));
}

/// C4: callers without credentials are limited by address, with their own message.
#[tokio::test]
async fn anonymous_callers_are_limited_by_address() {
    let api = Api::new("memory:", "anonymous_per_hour = 1");
    assert_eq!(api.ask(("test-peer", "192.0.2.1")).await.left(), (200, Some("1"), Some("0")));
    let denied = api.ask(("test-peer", "192.0.2.1")).await;
    assert_eq!(
        denied.message(),
        "Too Many Requests. We only allow 1 requests per hour for anonymous access."
    );
    assert_eq!(api.ask(("test-peer", "192.0.2.2")).await.status, 200);
    assert_eq!(api.ask(("test-peer", "no address")).await.status, 500, "the server provides no peer address");
    // Without an anonymous limit, they are not limited.
    let free = Api::new("memory:", "anonymous_per_hour = -1");
    assert_eq!(free.ask(("test-peer", "192.0.2.1")).await.left(), (200, None, None));
}

/// Invalid credentials get an error; a blocked consumer is refused whatever its limits.
#[tokio::test]
async fn wrong_credentials_and_blocked_consumers_are_refused() {
    let api = Api::new("memory:", "");
    let stranger = api.ask(("authorization", "Bearer guessed")).await;
    assert_eq!((stranger.status, stranger.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(stranger.body["type"], "urn:tollway:unknown-consumer");
    assert_eq!(api.ask(("x-consumer-id", "a_PER_DAY")).await.status, 400);
    api.records.set_blocked(&id("abc"), true).await.unwrap();
    let blocked = api.ask(ABC).await;
    assert_eq!((blocked.status, &blocked.body["type"]), (403, &"urn:tollway:blocked".into()));
    api.records.set_blocked(&id("abc"), false).await.unwrap();
    assert_eq!(api.ask(ABC).await.status, 200);
}

/// The same for gRPC clients.
#[tokio::test]
async fn grpc_callers_get_grpc_statuses() {
    let api = Api::new("memory:", "per_hour = 1");
    api.records.set_blocked(&id("bad"), true).await.unwrap();
    for (name, value, status) in [
        ("x-consumer-id", "abc", None),
        ("x-consumer-id", "abc", Some("8")),
        ("x-consumer-id", "bad", Some("7")),
        ("authorization", "Bearer guessed", Some("16")),
    ] {
        let request = Request::post("/").header("content-type", "application/grpc").header(name, value);
        let answer = api.send(request.body(()).unwrap()).await;
        assert_eq!((answer.status, answer.header("grpc-status")), (200, status), "{value}");
    }
}

/// C6: the master switch.
#[tokio::test]
async fn switched_off_requests_are_not_counted() {
    let api = Api::new("memory:", "enabled = false\nper_hour = 1\nanonymous_per_hour = 1");
    for header in [ABC, ABC, ("test-peer", "192.0.2.1"), ("test-peer", "192.0.2.1")] {
        assert_eq!(api.ask(header).await.left(), (200, None, None));
    }
}

/// C2, C7: counts in the documented keys, and follows the config while Redis is down.
#[tokio::test]
async fn redis_counts_in_the_documented_keys_and_may_be_down() {
    let redis = RedisServer::start();
    let store = format!("{}?layout=consumers", redis.url());
    let lines = "per_minute = 100\nanonymous_per_hour = 10";
    let api = Api::new(&store, lines);
    let closed = Api::new(&store, &format!("{lines}\nwhen_store_fails = 'closed'"));
    assert_eq!(api.ask(ABC).await.left(), (200, Some("100"), Some("99")));
    assert_eq!(api.ask(("test-peer", "192.0.2.9")).await.status, 200);
    assert_eq!(redis.command(&["GET", "abc_PER_MINUTE"]), "1");
    assert_eq!(redis.command(&["GET", "192.0.2.9_PER_HOUR"]), "1");
    redis.kill();
    assert_eq!(api.ask(ABC).await.left(), (200, None, None), "fail open");
    assert_eq!(closed.ask(ABC).await.status, 503);
}

#[tokio::test]
async fn the_header_choice_applies() {
    let mut api = Api::new("memory:", "per_minute = 100");
    api.layer = api.layer.clone().headers(HeaderChoice::NONE);
    assert!(api.ask(ABC).await.headers.is_empty());
}

/// A program skips requests and writes its own denials here, too.
#[tokio::test]
async fn skips_and_denials_of_the_program_apply() {
    let mut api = Api::new("memory:", "per_minute = 1");
    api.layer = api.layer.clone().skip(|request| request.uri.path() == "/health").on_denied(
        |request, denied, response| {
            let policy = denied.policy().name();
            *response.body_mut() = format!("\"{policy} denied {}\"", request.uri.path()).into();
        },
    );
    let health = || Request::get("/health").header(ABC.0, ABC.1).body(()).unwrap();
    assert_eq!(api.send(health()).await.left(), (200, None, None));
    assert_eq!(api.ask(ABC).await.left(), (200, Some("1"), Some("0")));
    let denied = api.ask(ABC).await;
    assert_eq!((denied.left(), &denied.body), ((429, Some("1"), Some("0")), &"consumers denied /".into()));
    assert_eq!(api.send(health()).await.left(), (200, None, None));
}

/// Unreadable records do not fail a request, unless the config says so.
#[tokio::test]
async fn requests_pass_while_records_are_unreadable() -> Result<(), RecordsError> {
    let config = |fails: &str| {
        ConfigWithConsumers::parse(&format!(
            "[consumers]\nheader = 'x-consumer-id'\nwhen_store_fails = '{fails}'"
        ))
        .unwrap()
    };
    for (fails, status) in [("open", 200), ("closed", 503)] {
        let (folder, config) = (tempfile::tempdir().unwrap(), config(fails));
        let file = folder.path().join("records.db");
        let records = open_records(&format!("sqlite:{}", file.display()))?;
        std::fs::write(&file, "this is no database any more, and long enough to be taken for one that is")
            .unwrap();
        let consumers = config.consumers().unwrap();
        let gate = Gate::new(Limiter::builder().build(), Arc::clone(&records), consumers).unwrap();
        let layer = ConsumersLayer::new(Arc::new(gate), Who::new(&consumers.who).unwrap());
        let api = Api { layer, records, _folder: folder };
        assert_eq!(api.ask(ABC).await.status, status, "{fails}");
    }
    Ok(())
}
