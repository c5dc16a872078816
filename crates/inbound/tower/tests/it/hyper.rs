//! The layer in a plain hyper server, over real HTTP/1 and HTTP/2 connections.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tollway::Limiter;
use tollway_tower::{RateLimitLayer, SubjectFrom};
use tonic::codegen::tokio_stream::{self, StreamExt};
use tower::{Layer, service_fn};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// `/` ends at once; `/endless` sends a body without end.
async fn hello(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let begun = tokio_stream::once(Ok(Frame::data(Bytes::from("hello"))));
    Ok(Response::new(match request.uri().path() {
        "/endless" => BodyExt::boxed_unsync(StreamBody::new(begun.chain(tokio_stream::pending()))),
        _ => BodyExt::boxed_unsync(StreamBody::new(begun)),
    }))
}

/// Serves behind this limit on a free port for as long as the test's runtime lives.
async fn serve(limit: &str) -> SocketAddr {
    let limiter = Limiter::builder().policy("api", [limit]).unwrap().build();
    let layer = RateLimitLayer::new(limiter.policy("api").unwrap()).subject(SubjectFrom::header("x-api-key"));
    let service = TowerToHyperService::new(layer.layer(service_fn(hello)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service.clone();
            tokio::spawn(async move {
                // A disconnecting client is an error here; some tests disconnect on purpose.
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// The head of a response with its body still to come, over its own connection, which ends with the response.
async fn ask(address: SocketAddr, version: Version, path: &str) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let request =
        Request::get(format!("http://{address}{path}")).header("host", "test").header("x-api-key", "anna");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    if version == Version::HTTP_2 {
        let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }
}

#[tokio::test]
async fn responses_show_what_remains_and_then_429_over_both_versions() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let address = serve("2 requests / hour from first call").await;
        for left in ["1", "0"] {
            let answer = ask(address, version, "/").await;
            assert_eq!((answer.version(), answer.status()), (version, StatusCode::OK));
            assert_eq!(answer.headers()["x-rate-limit-remaining"], left);
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
        }
        let denied = ask(address, version, "/").await;
        assert_eq!((denied.version(), denied.status()), (version, StatusCode::TOO_MANY_REQUESTS));
        assert!(denied.headers().contains_key("retry-after"));
        let told = denied.into_body().collect().await.unwrap().to_bytes();
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        assert_eq!((&told["code"], &told["limit"]), (&429.into(), &"requests_per_hour".into()));
    }
}

/// A slot is held while the response is sent, and freed when its client disconnects.
#[tokio::test]
async fn a_disconnecting_client_frees_its_slot() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let address = serve("1 concurrent").await;
        let mut endless = ask(address, version, "/endless").await;
        let frame = endless.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "hello");
        assert_eq!(ask(address, version, "/").await.status(), StatusCode::TOO_MANY_REQUESTS);
        drop(endless);
        let begun = Instant::now();
        while ask(address, version, "/").await.status() != StatusCode::OK {
            assert!(begun.elapsed() < Duration::from_secs(30), "{version:?}: the slot is not freed");
        }
    }
}
