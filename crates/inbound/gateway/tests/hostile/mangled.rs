//! Requests of random pieces.

use crate::{CALLERS, CREDENTIAL, fixture, log};

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
        "content-length: 0\r\ntransfer-encoding: chunked\r\n",
        "connection: authorization, content-length\r\n",
        "x-lunar-host: evil\r\nx-portkey-custom-host: http://evil\r\n",
        "te: trailers, gzip\r\ntrailer: host\r\n",
    ];
    for _ in 0..count {
        let mut target = if pick(4) == 0 { String::new() } else { "/test".to_owned() };
        (0..pick(8)).for_each(|_| target.push_str(pieces[pick(pieces.len())]));
        let mut message = format!(
            "GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {CALLERS}\r\n"
        );
        (0..pick(3)).for_each(|_| message.push_str(headers[pick(headers.len())]));
        message.push_str("\r\nabc0\r\n\r\n");
        let reply = gateway.send(message.as_bytes()).await;
        assert!((200..600).contains(&reply.status) || reply.head.is_empty(), "{message}: {reply:?}");
        assert!(!reply.text().contains(CREDENTIAL), "{message}: {reply:?}");
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    for request in vendor.requests() {
        assert!(request.starts_with("GET /v1"), "{request}");
        assert_eq!(request.matches(&format!("host: {}\r\n", vendor.address)).count(), 1, "{request}");
        assert_eq!(request.matches(&format!("x-key: {CREDENTIAL}")).count(), 1, "{request}");
        let path = request.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
        let path = path.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/").replace("%2e", ".");
        assert!(!path.split('/').any(|segment| segment == ".."), "{request}");
    }
    assert_eq!(gateway.get("/test/after", "").await.status, 200, "it still serves");
    log::check();
}
