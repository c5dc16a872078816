//! The layer in an axum server, over real connections.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use axum::extract::ConnectInfo;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tollway::Limiter;
use tollway_tower::address::{AddressRules, Trust};
use tollway_tower::{RateLimitLayer, SubjectFrom};

fn layer(limits: &[&str]) -> RateLimitLayer {
    let limiter = Limiter::builder().policy("api", limits.iter().copied()).unwrap().build();
    RateLimitLayer::new(limiter.policy("api").unwrap())
}

/// Serves on a free port for as long as the test's runtime lives.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// A whole response, as received.
async fn ask(address: SocketAddr, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n");
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    asked.await.unwrap()
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// B10: every response shows what remains, and a denial is a 429 with a retry time and the limit.
#[tokio::test]
async fn responses_show_what_remains_and_then_429() {
    let limit = layer(&["2 requests / hour from first call"]).subject(SubjectFrom::header("x-api-key"));
    let address = serve(Router::new().route("/", get(async || "hello")).layer(limit)).await;
    for left in ["1", "0"] {
        let answer = ask(address, "/", "x-api-key: anna\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        assert_eq!(header(&answer, "x-rate-limit-remaining"), Some(left));
        assert!(
            header(&answer, "ratelimit").unwrap().starts_with(&format!("\"requests_per_hour\";r={left}"))
        );
    }
    let answer = ask(address, "/", "x-api-key: anna\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert_eq!(header(&answer, "content-type"), Some("application/json"));
    let seconds: u64 = header(&answer, "retry-after").unwrap().parse().unwrap();
    assert!((3_590..=3_600).contains(&seconds), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["message"], "Too Many Requests. We only allow 2 requests per hour.");
    assert_eq!(
        (&body["code"], &body["policy"], &body["limit"]),
        (&429.into(), &"api".into(), &"requests_per_hour".into())
    );
    assert!(body["retry_after_ms"].as_u64().unwrap() > 3_500_000);
    assert!(ask(address, "/", "x-api-key: ben\r\n").await.starts_with("HTTP/1.1 200"));
    let stranger = ask(address, "/", "").await;
    assert!(
        stranger.starts_with("HTTP/1.1 400") && stranger.contains("it needs a header x-api-key"),
        "{stranger}"
    );
}

#[tokio::test]
async fn forwarded_addresses_count_only_if_trusted() {
    let peer = |request: &axum::http::request::Parts| -> Option<IpAddr> {
        request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    };
    let behind_one = AddressRules { trust: Trust::Hops(1), ..AddressRules::default() };
    for (rules, second) in [(AddressRules::default(), "429"), (behind_one, "200")] {
        let limit = layer(&["1 request / hour from first call"]).subject(SubjectFrom::address(rules, peer));
        let address = serve(Router::new().route("/", get(async || "hello")).layer(limit)).await;
        assert!(ask(address, "/", "x-forwarded-for: 203.0.113.1\r\n").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/", "x-forwarded-for: 203.0.113.2\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {second}")), "{answer}");
    }
}

#[tokio::test]
async fn extension_and_path_subjects_count_separately() {
    #[derive(Clone)]
    struct User(&'static str);

    let hello = || get(async || "hello");
    let of_user = layer(&["1 request / hour from first call"])
        .subject(SubjectFrom::extension(|user: &User| user.0.into()));
    let of_path = layer(&["1 request / hour from first call"]).subject(SubjectFrom::path_segment(1));
    let users = Router::new().route("/me", hello()).layer(of_user).layer(Extension(User("anna")));
    let tenants = Router::new().route("/tenants/{name}", hello()).layer(of_path);
    let address = serve(users.merge(tenants)).await;
    for (path, status) in [
        ("/me", 200),
        ("/me", 429),
        ("/tenants/a", 200),
        ("/tenants/b", 200),
        ("/tenants/a", 429),
        ("/tenants/%61", 429),
        ("/tenants/%zz", 400),
        ("/tenants/", 400),
    ] {
        let answer = ask(address, path, "").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
}
