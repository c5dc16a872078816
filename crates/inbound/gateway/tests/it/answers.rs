//! Answers of the gateway's own, and streams that begin while a call waits.

use crate::running::{api, gateway, gateway_with};
use crate::vendor::RecordingVendor;

#[tokio::test]
async fn an_unknown_api_is_told_with_those_that_are_known() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, "rate = \"auto\"")).await;
    for path in ["/", "/other/a", "/testing/a", "/%74est/a", "/TEST/a"] {
        let reply = gateway.get(path, "").await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text().contains("there are /test/"), "{}", reply.text());
    }
    assert!(vendor.requests().is_empty());
}

#[tokio::test]
async fn a_vendor_that_cannot_be_reached_is_a_502() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    let keys =
        "rate = \"off\"\nlimits = [\"1 / hour from first call\"]\n[apis.test.gateway]\naccount = \"one\"";
    let gateway = gateway(&api(nowhere, keys)).await;
    let reply = gateway.get("/test/a?key=secret", "").await;
    assert_eq!((reply.status, reply.header("tollway-refused-by")), (502, "tollway"), "{reply:?}");
    assert!(!reply.text().contains("secret"));
    // Nothing was sent, so the permit is given back.
    let room = async { while gateway.limiter.try_take("test").preview().await.unwrap().is_some() {} };
    tokio::time::timeout(crate::running::LONG, room).await.unwrap();
}

/// With `keepalive`, the answer to a waiting stream begins with comments; the vendor's events follow.
#[tokio::test]
async fn a_stream_that_waits_is_kept_alive_by_comments() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1 / 2s paced\"]\n[apis.test.gateway]\nkeepalive = \"200ms\"";
    let gateway = gateway(&api(vendor.address, keys)).await;
    assert_eq!(gateway.get("/test/a", "").await.status, 200);
    let events = vendor.events();
    events.send("data: first\n\n".to_owned()).unwrap();
    drop(events);
    let reply = gateway.request("POST", "/test/events", "", b"{\"stream\": true}").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/event-stream"), "{reply:?}");
    let text = reply.text();
    assert!(text.starts_with(": ping\n\n") && text.ends_with("data: first\n\n"), "{text}");
    // What goes wrong later is an event.
    vendor.answer_next(&["HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"]);
    let failed = gateway.request("POST", "/test/events", "", b"{\"stream\": true}").await;
    assert!(failed.status == 200 && failed.text().contains("event: error\ndata: {"), "{failed:?}");
}

/// A listener that other machines reach needs a token if the config has a credential. The token is not the vendor's to see.
#[tokio::test]
async fn a_token_opens_a_gateway_that_others_reach() {
    let vendor = RecordingVendor::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef").unwrap();
    let keys = "rate = \"off\"\nlimits = [\"1000 / second\"]\nheaders = { authorization = { env = \"CARGO_MANIFEST_DIR\" } }";
    let config = tollway::Config::parse(&api(vendor.address, keys)).unwrap();
    let limiter = tollway::Limiter::builder().config(&config).unwrap().build();
    let mut without = tollway_server::ServerConfig::gateway();
    without.listen = tollway_server::ListenAddress::Tcp(([0, 0, 0, 0], 0).into());
    let refused = tollway_gateway::Gateway::new(limiter, &without).await.err().unwrap().to_string();
    assert!(refused.contains("set `token` in [gateway]"), "{refused}");

    // Nor does a reload bring one to a listener without a token.
    let plain = tollway::Config::parse(&api(vendor.address, "rate = \"auto\"")).unwrap();
    let limiter = tollway::Limiter::builder().config(&plain).unwrap().build();
    let gateway = tollway_gateway::Gateway::new(limiter, &without).await.unwrap();
    assert!(gateway.reload(&plain, &without).is_ok());
    let refused = gateway.reload(&config, &without).unwrap_err().to_string();
    assert!(refused.contains("set `token` in [gateway]"), "{refused}");

    // On loopback a token is asked for only if there is one.
    let token = tollway_server::Token::File(path);
    let gateway =
        gateway_with(&api(vendor.address, keys), |config| config.decisions_token = Some(token)).await;
    assert_eq!(gateway.get("/test/a", "").await.status, 401);
    for header in ["authorization: Bearer 0123456789abcdef\r\n", "x-tollway-token: 0123456789abcdef\r\n"] {
        assert_eq!(gateway.get("/test/a", header).await.status, 200, "{header}");
    }
    assert!(vendor.requests().iter().all(|request| !request.contains("0123456789abcdef")));
}
