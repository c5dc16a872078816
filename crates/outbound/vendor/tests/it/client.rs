//! A small HTTP client.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tollway_core::{Clock, Span, Timestamp};
use tollway_memory::WallClock;
use tollway_vendor::server::{VendorServer, VendorSettings};

/// A generous timeout for anything that should happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A vendor with these limits, whose windows began a moment ago: none ends during a test.
pub(crate) fn settings(limits: &[&str]) -> (VendorSettings, Timestamp) {
    let now = WallClock.now();
    let phase = now.since(Timestamp::EPOCH);
    (VendorSettings::with_phase(limits.iter().copied(), phase).unwrap(), now)
}

pub(crate) async fn start(limits: &[&str]) -> VendorServer {
    VendorServer::start(settings(limits).0).await.unwrap()
}

pub(crate) async fn send(vendor: &VendorServer, method: Method, path: &str, body: impl Into<Bytes>) -> Got {
    send_to(&vendor.address().to_string(), method, path, body.into()).await
}

pub(crate) async fn get(vendor: &VendorServer) -> StatusCode {
    send(vendor, Method::GET, "/v1/users", "").await.status
}

pub(crate) async fn send_to(address: &str, method: Method, path: &str, body: Bytes) -> Got {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", address);
    let response = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    connection.abort();
    Got { status: head.status, headers: head.headers, body }
}

/// Waits until the condition holds.
pub(crate) async fn wait_until(what: &str, so: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(LONG, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

pub(crate) fn hour() -> Span {
    Span::from_hours(1)
}
