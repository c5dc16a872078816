//! Requests and answers pass as they are.

use crate::running::{api, gateway};
use crate::vendor::RecordingVendor;

const FREE: &str = "rate = \"off\"\nlimits = [\"1000 / second\"]";

/// B8: path, query, headers and body reach the vendor as they were sent; `Host` is the vendor's.
#[tokio::test]
async fn a_request_reaches_the_vendor_as_it_was_sent() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    let headers = "X-Mine: ä\r\nuser-agent: me/1\r\nauthorization: Bearer key\r\ntollway-priority: high\r\n\
                   x-tollway-token: t\r\naccept: */*\r\nte: trailers\r\nproxy-authorization: p\r\n";
    let reply = gateway.request("PATCH", "/test/a%2Fb/c%20d?q=%41&x=a,b", headers, b"{\"a\": 1}").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"), "{reply:?}");
    let [request] = &vendor.requests()[..] else { panic!("one request") };
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("PATCH /v1/a%2Fb/c%20d?q=%41&x=a,b HTTP/1.1"));
    let mut lines: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    lines.sort();
    let host = format!("host: {}", vendor.address);
    let mut expected = [
        "x-mine: ä",
        "user-agent: me/1",
        "authorization: bearer key",
        "accept: */*",
        "content-length: 8",
        &host,
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(body, "{\"a\": 1}");
}

/// The base's own path may be repeated, as SDKs differ.
#[tokio::test]
async fn every_method_passes_under_both_forms_of_the_path() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    for (method, path) in [
        ("GET", "/test/models"),
        ("DELETE", "/test/v1/models"),
        ("OPTIONS", "/test/models"),
        ("POST", "/test/models"),
    ] {
        assert_eq!(gateway.request(method, path, "", b"").await.status, 200, "{method} {path}");
        let request = vendor.requests().pop().unwrap();
        assert!(request.starts_with(&format!("{method} /v1/models HTTP/1.1\r\n")), "{request}");
        // Some vendors answer 411 without it.
        assert_eq!(request.contains("content-length: 0\r\n"), method == "POST", "{request}");
    }
    let head = gateway.request("HEAD", "/test/zip", "", b"").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "16", 0), "{head:?}");
}

/// Redirects are the caller's to follow, compressed bodies its to read, and other statuses its to judge.
#[tokio::test]
async fn an_answer_passes_as_it_is() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    let redirect = gateway.get("/test/redirect", "").await;
    assert_eq!((redirect.status, redirect.header("location")), (302, "http://elsewhere.example/x?y=1"));
    assert_eq!(vendor.requests().len(), 1);
    let zip = gateway.get("/test/zip", "").await;
    assert_eq!((zip.header("content-encoding"), zip.text().as_str()), ("gzip", "\u{1f}not really gzip"));
    let teapot = gateway.get("/test/teapot", "").await;
    assert_eq!((teapot.status, teapot.text().as_str()), (418, "short and stout"));
    let own = gateway.get("/test/own", "").await;
    assert_eq!(own.header("x-kept"), "1");
    for removed in ["tollway-refused-by", "keep-alive", "x-hop"] {
        assert_eq!(own.header(removed), "", "{own:?}");
    }
    assert!(own.header("server-timing").contains("vendor;dur="), "{own:?}");
}

/// Bodies above 1 MiB and of unknown length are streamed.
#[tokio::test]
async fn long_and_chunked_bodies_pass_whole() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    let long = vec![b'x'; 3_000_000];
    assert_eq!(gateway.request("POST", "/test/upload", "", &long).await.status, 200);
    let request = vendor.requests().pop().unwrap();
    assert!(request.ends_with(&"x".repeat(3_000_000)) && request.contains("content-length: 3000000"));
    let chunked = "POST /test/upload HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    assert_eq!(gateway.send(chunked).await.status, 200);
    assert!(vendor.requests().pop().unwrap().ends_with("\r\n\r\nabcdefg"));
}

/// What a client sends around its body ends here: an expectation that the gateway answers, and trailers.
#[tokio::test]
async fn expectations_and_trailers_end_at_the_gateway() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    let head = "POST /test/upload HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let expecting = format!("{head}expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc");
    assert_eq!(gateway.send(expecting).await.status, 200);
    let trailing = format!(
        "{head}trailer: x-late\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-late: 1\r\nhost: evil.example\r\n\r\n"
    );
    assert_eq!(gateway.send(trailing).await.status, 200);
    for request in vendor.requests() {
        assert!(request.ends_with("\r\n\r\nabc"), "{request}");
        for ended in ["expect", "trailer", "x-late", "evil"] {
            assert!(!request.contains(ended), "{request}");
        }
    }
    assert_eq!(vendor.requests().len(), 2);
}

/// Each event arrives before the vendor has sent the next one.
#[tokio::test]
async fn events_arrive_one_by_one() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, FREE)).await;
    let events = vendor.events();
    let mut stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(b"GET /test/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut seen = String::new();
    for number in 0..5 {
        let event = format!("data: {number}\n\n");
        events.send(event.clone()).unwrap();
        while !seen.contains(&event) {
            let mut bytes = [0; 1024];
            let read =
                tokio::time::timeout(crate::running::LONG, stream.read(&mut bytes)).await.unwrap().unwrap();
            assert!(read > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
    assert!(seen.contains("content-type: text/event-stream"), "{seen}");
}

/// With a credential in the config, callers need none, and their own does not reach the vendor.
#[tokio::test]
async fn the_configs_credential_replaces_the_callers() {
    let vendor = RecordingVendor::start().await;
    // Cargo sets this variable for every test.
    let keys = format!(
        "{FREE}\nheaders = {{ authorization = {{ env = \"CARGO_MANIFEST_DIR\", prefix = \"Bearer \" }}, x-version = \"1\" }}"
    );
    let gateway = gateway(&api(vendor.address, &keys)).await;
    gateway.get("/test/a", "authorization: Bearer dummy\r\nx-api-key: mine\r\n").await;
    gateway.get("/test/a", "x-version: 2\r\n").await;
    let requests = vendor.requests();
    let credential = concat!("authorization: Bearer ", env!("CARGO_MANIFEST_DIR"), "\r\n");
    assert!(requests[0].contains(credential), "{}", requests[0]);
    assert!(
        !requests[0].contains("dummy")
            && !requests[0].contains("mine")
            && requests[0].contains("x-version: 1")
    );
    assert!(requests[1].contains("x-version: 2") && !requests[1].contains("x-version: 1"), "{}", requests[1]);
}
