//! Requests that lead elsewhere, and messages that two servers could read in two ways.

use crate::running::{api, gateway_with};
use crate::vendor::RecordingVendor;
use crate::{FREE, fixture, log};

/// Forms of targets that name another place, or lead out of the base URL. Named after published advisories where there is one.
fn targets(other: std::net::SocketAddr) -> Vec<(String, &'static str)> {
    [
        (format!("http://{other}/test/a"), "absolute form"),
        (format!("//{other}/test/a"), "a path that looks like an authority"),
        (format!("/test/../../{other}"), "dots"),
        ("/test/%2e%2e/%2e%2e/admin".to_owned(), "encoded dots"),
        ("/test/..%2f..%2fadmin".to_owned(), "encoded slashes (Reverse::Proxy)"),
        ("/test/..%5c..%5cadmin".to_owned(), "encoded backslashes"),
        ("/test/..;/admin".to_owned(), "path parameters"),
        (format!("@{other}/"), "userinfo"),
        ("*".to_owned(), "asterisk form"),
    ]
    .into()
}

#[tokio::test]
async fn targets_that_lead_elsewhere_are_refused() {
    let (vendor, other, gateway) = fixture().await;
    for (target, name) in targets(other.address) {
        let reply = gateway.get(&target, "").await;
        assert!([400, 404].contains(&reply.status), "{name}: {reply:?}");
    }
    assert!(vendor.requests().is_empty() && other.requests().is_empty());
    log::check();
}

/// These pass, and stay below the base.
#[tokio::test]
async fn odd_paths_stay_below_the_base() {
    let (vendor, other, gateway) = fixture().await;
    for path in [
        "//evil.example/x",
        "/@evil.example",
        "/a:b@evil.example/",
        "/%0d%0aHost:%20evil.example",
        "/?api_base=http://evil.example",
        "/x?u=//evil.example",
    ] {
        assert_eq!(gateway.get(&format!("/test{path}"), "").await.status, 200, "{path}");
        let request = vendor.requests().pop().unwrap();
        assert!(request.starts_with(&format!("GET /v1{path} HTTP/1.1\r\n")), "{path}: {request}");
        assert!(request.contains(&format!("host: {}\r\n", vendor.address)), "{path}: {request}");
    }
    assert!(other.requests().is_empty());
    log::check();
}

/// Messages that two servers could read in two ways (Pingora CVE-2026-2833 and CVE-2026-2835, and the usual forms).
#[tokio::test]
async fn ambiguous_messages_are_refused() {
    let (vendor, _, gateway) = fixture().await;
    let smuggled = "GET /test/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let host = "host: localhost\r\nconnection: close\r\n";
    for (name, message) in [
        (
            "two lengths",
            format!(
                "POST /test/a HTTP/1.1\r\n{host}content-length: 0\r\ncontent-length: {}\r\n\r\n{smuggled}",
                smuggled.len()
            ),
        ),
        ("signed length", format!("POST /test/a HTTP/1.1\r\n{host}content-length: +0\r\n\r\n{smuggled}")),
        (
            "unknown coding",
            format!("POST /test/a HTTP/1.1\r\n{host}transfer-encoding: xchunked\r\n\r\n{smuggled}"),
        ),
        (
            "coding twice",
            format!(
                "POST /test/a HTTP/1.1\r\n{host}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
            ),
        ),
        (
            "chunked in HTTP/1.0",
            format!("POST /test/a HTTP/1.0\r\n{host}transfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "bytes after an upgrade",
            format!(
                "GET /test/a HTTP/1.1\r\n{host}connection: upgrade\r\nupgrade: websocket\r\n\r\n{smuggled}"
            ),
        ),
        ("two hosts", format!("GET /test/a HTTP/1.1\r\n{host}host: evil.example\r\n\r\n")),
        ("no host", "GET /test/a HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned()),
        ("space before the colon", format!("GET /test/a HTTP/1.1\r\n{host}x-a : 1\r\n\r\n")),
        (
            "a tunnel",
            "CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        ),
        (
            "an expectation",
            format!("POST /test/a HTTP/1.1\r\n{host}expect: 200-maybe\r\ncontent-length: 0\r\n\r\n"),
        ),
    ] {
        let reply = gateway.send(message).await;
        assert!((400..600).contains(&reply.status), "{name}: {reply:?}");
        assert!(vendor.requests().is_empty(), "{name}: {:?}", vendor.requests());
    }
    log::check();
}

/// A body with two lengths is refused, also where they agree, and nothing else is read from its connection: a proxy in front
/// may take its rest for a request.
#[tokio::test]
async fn a_body_with_two_lengths_is_refused() {
    let (vendor, _, gateway) = fixture().await;
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    let next = "GET /test/next HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for lengths in [
        "content-length: 13\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 13\r\n",
        "Transfer-Encoding:chunked\r\nx: y\r\nContent-Length:0\r\n",
        "content-length: 13\r\ncontent-length: 13\r\n",
    ] {
        // It does not say that it closes the connection.
        let message = format!("POST /test/a HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n{chunks}{next}");
        let reply = gateway.send(message).await;
        assert_eq!((reply.status, reply.header("connection")), (400, "close"), "{lengths}: {reply:?}");
        assert!(!reply.text().contains("HTTP/1.1"), "one answer: {reply:?}");
    }
    assert!(vendor.requests().is_empty(), "{:?}", vendor.requests());
    let one = format!(
        "POST /test/a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"
    );
    assert_eq!(gateway.send(one).await.status, 200);
    log::check();
}

/// `Host` and a browser's headers are checked by the server's own function (LiteLLM CVE-2026-49468: a route made of `Host`).
#[tokio::test]
async fn foreign_names_and_web_pages_are_refused() {
    let (vendor, _, gateway) = fixture().await;
    let rebound =
        gateway.send("GET /test/a HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert_eq!(rebound.status, 403, "{rebound:?}");
    assert!(rebound.text().contains("in [gateway]"), "{}", rebound.text());
    for headers in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n", "origin: null\r\n"]
    {
        assert_eq!(gateway.get("/test/a", headers).await.status, 403, "{headers}");
    }
    assert!(vendor.requests().is_empty());
    log::check();
}

/// A page that the config allows may send any method and header, and read the answer. Its browser asks before; the vendor is not
/// asked.
#[tokio::test]
async fn an_allowed_web_page_calls_like_a_program() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway_with(&api(vendor.address, FREE), |config| {
        config.allowed_origins = vec!["https://app.example".to_owned()];
    })
    .await;
    let page = "origin: https://app.example\r\nsec-fetch-site: cross-site\r\n";
    let asks = "access-control-request-method: PATCH\r\naccess-control-request-headers: authorization,x-stainless-os\r\n";
    let asked = gateway.request("OPTIONS", "/test/a", &format!("{page}{asks}"), b"").await;
    assert_eq!((asked.status, asked.header("access-control-allow-methods")), (204, "PATCH"), "{asked:?}");
    assert_eq!(asked.header("access-control-allow-headers"), "authorization,x-stainless-os");
    assert!(vendor.requests().is_empty());
    let answered = gateway.request("PATCH", "/test/a", &format!("{page}x-stainless-os: web\r\n"), b"a").await;
    assert_eq!(
        (answered.status, answered.header("access-control-allow-origin")),
        (200, "https://app.example")
    );
    assert_eq!(answered.header("access-control-expose-headers"), "*");
    let other =
        gateway.request("OPTIONS", "/test/a", &format!("origin: https://evil.example\r\n{asks}"), b"").await;
    assert_eq!(other.status, 403, "{other:?}");
    assert_eq!(vendor.requests().len(), 1);
}
