//! Hostile requests: nothing reaches an address that is not registered.

use crate::running::{Running, api, gateway};
use crate::vendor::RecordingVendor;

const FREE: &str =
    "rate = \"off\"\nlimits = [\"100000 / second\"]\nheaders = { x-key = { env = \"CARGO_MANIFEST_DIR\" } }";

async fn fixture() -> (RecordingVendor, RecordingVendor, Running) {
    let (vendor, other) = (RecordingVendor::start().await, RecordingVendor::start().await);
    let gateway = gateway(&api(vendor.address, FREE)).await;
    (vendor, other, gateway)
}

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
}

/// With both a length and chunks, the chunks count, as RFC 9112 says. The vendor gets one request, framed by the gateway.
#[tokio::test]
async fn a_request_with_two_framings_is_read_in_one_way() {
    let (vendor, _, gateway) = fixture().await;
    let host = "host: localhost\r\nconnection: close\r\n";
    let chunks = "3\r\nabc\r\n0\r\n\r\nGET /test/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
    ] {
        let reply = gateway.send(format!("POST /test/a HTTP/1.1\r\n{host}{framing}\r\n{chunks}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let request = vendor.requests().pop().unwrap();
        assert!(request.ends_with("\r\n\r\nabc") && request.contains("content-length: 3\r\n"), "{request}");
    }
    assert_eq!(vendor.requests().len(), 2);
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
}

/// Ten thousand requests of random pieces: each that reaches the vendor is below its base, with its own `Host`.
#[tokio::test]
async fn ten_thousand_mangled_requests_reach_no_other_place() {
    let (vendor, other, gateway) = fixture().await;
    let count: usize =
        std::env::var("TOLLWAY_HOSTILE").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pick = |of: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % of as u64).unwrap()
    };
    let there = other.address.to_string();
    let pieces = [
        "/",
        "..",
        ".",
        "%2e",
        "%2f",
        "%5c",
        "\\",
        "@",
        "//",
        ":",
        there.as_str(),
        "a",
        "test",
        "%00",
        "%0d%0a",
        "?",
        "#",
        ";",
        " ",
        "\t",
        "http:",
        "v1",
        "%",
        "ä",
    ];
    let headers = [
        "x-forwarded-host: evil\r\n",
        "connection: x-key, host\r\n",
        "tollway-max-wait: x\r\n",
        "host: evil\r\n",
        "content-length: 3\r\n",
        "transfer-encoding: chunked\r\n",
        "expect: 100-continue\r\n",
        "\r\n",
        "x: y\r\n z\r\n",
        "upgrade: h2c\r\n",
    ];
    for _ in 0..count {
        let mut target = if pick(4) == 0 { String::new() } else { "/test".to_owned() };
        (0..pick(8)).for_each(|_| target.push_str(pieces[pick(pieces.len())]));
        let mut message = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        (0..pick(3)).for_each(|_| message.push_str(headers[pick(headers.len())]));
        message.push_str("\r\nabc0\r\n\r\n");
        let reply = gateway.send(message.as_bytes()).await;
        assert!((200..600).contains(&reply.status) || reply.head.is_empty(), "{message}: {reply:?}");
        assert!(!reply.text().contains(env!("CARGO_MANIFEST_DIR")), "{message}: {reply:?}");
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    for request in vendor.requests() {
        assert!(request.starts_with("GET /v1"), "{request}");
        assert_eq!(request.matches(&format!("host: {}\r\n", vendor.address)).count(), 1, "{request}");
        assert_eq!(request.matches(concat!("x-key: ", env!("CARGO_MANIFEST_DIR"))).count(), 1, "{request}");
        let path = request.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
        let path = path.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/").replace("%2e", ".");
        assert!(!path.split('/').any(|segment| segment == ".."), "{request}");
    }
    assert_eq!(gateway.get("/test/after", "").await.status, 200, "it still serves");
}
