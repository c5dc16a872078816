//! The layer in a tonic server, called by a tonic client over a real connection.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use tokio::net::TcpListener;
use tollway::core::WhenStoreFails;
use tollway::{Limiter, Policy};
use tollway_testkit::servers::RedisServer;
use tollway_tower::{RateLimitLayer, SubjectFrom};
use tonic::body::Body;
use tonic::client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream::{self, Stream, StreamExt};
use tonic::server::{self, NamedService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::{Service, service_fn};

/// Raw byte messages, so that no protobuf definition is needed.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// `Say` echoes its message, `Repeat` echoes it twice, and `Hold` echoes it once and never ends.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

type Told = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = server::Grpc::new(Raw);
            Ok(match request.uri().path() {
                "/test.Echo/Say" => grpc.unary(service_fn(say), request).await,
                "/test.Echo/Repeat" => grpc.server_streaming(service_fn(repeat), request).await,
                _ => grpc.server_streaming(service_fn(hold), request).await,
            })
        })
    }
}

async fn say(told: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    Ok(Response::new(told.into_inner()))
}

async fn repeat(told: Request<Bytes>) -> Result<Response<Told>, Status> {
    let told = told.into_inner();
    Ok(Response::new(Box::pin(tokio_stream::iter([Ok(told.clone()), Ok(told)]))))
}

async fn hold(told: Request<Bytes>) -> Result<Response<Told>, Status> {
    let once = tokio_stream::once(Ok(told.into_inner()));
    Ok(Response::new(Box::pin(once.chain(tokio_stream::pending()))))
}

/// A client of a server behind this layer; the server lives as long as the test's runtime.
async fn client(layer: RateLimitLayer) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(Echo);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    Client(client::Grpc::new(channel))
}

struct Client(client::Grpc<Channel>);

impl Client {
    async fn say(&mut self, key: Option<&str>) -> Result<Response<Bytes>, Status> {
        self.0.ready().await.unwrap();
        self.0.unary(hello(key), "/test.Echo/Say".parse().unwrap(), Raw).await
    }

    async fn stream(&mut self, path: &str) -> Result<Response<Streaming<Bytes>>, Status> {
        self.0.ready().await.unwrap();
        self.0.server_streaming(hello(Some("anna")), path.parse().unwrap(), Raw).await
    }

    async fn repeat_when_there_is_room(&mut self) -> Streaming<Bytes> {
        let begun = Instant::now();
        loop {
            match self.stream("/test.Echo/Repeat").await {
                Ok(stream) => return stream.into_inner(),
                Err(denied) => assert_eq!(denied.code(), Code::ResourceExhausted),
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "the slot is not freed");
        }
    }
}

fn hello(key: Option<&str>) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from("hello"));
    if let Some(key) = key {
        request.metadata_mut().insert("x-api-key", key.parse().unwrap());
    }
    request
}

fn layer(limit: &str) -> RateLimitLayer {
    let limiter = Limiter::builder().policy("api", [limit]).unwrap().build();
    RateLimitLayer::new(limiter.policy("api").unwrap()).subject(SubjectFrom::header("x-api-key"))
}

/// A denial is a gRPC status with a retry time.
#[tokio::test]
async fn calls_show_what_remains_and_then_resource_exhausted() {
    let mut client = client(layer("2 requests / hour from first call")).await;
    for left in ["1", "0"] {
        let answer = client.say(Some("anna")).await.unwrap();
        assert_eq!(answer.metadata().get("x-rate-limit-remaining").unwrap(), left);
        assert_eq!(answer.into_inner(), "hello");
    }
    let denied = client.say(Some("anna")).await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    let words = "Too Many Requests. We only allow 2 requests per hour.";
    assert_eq!(denied.message(), words);
    let pushback = denied.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert!(pushback.parse::<u64>().unwrap() > 3_500_000, "{pushback}");
    let denied = client.stream("/test.Echo/Repeat").await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted, "a stream that has not begun");
    assert_eq!(client.say(Some("ben")).await.unwrap().into_inner(), "hello");
    assert_eq!(client.say(None).await.unwrap_err().code(), Code::InvalidArgument);
}

/// A slot is held until the last message and the trailers are sent, or the client disconnects.
#[tokio::test]
async fn a_stream_holds_its_slot_until_its_end() {
    let mut client = client(layer("1 concurrent")).await;
    let mut held = client.stream("/test.Echo/Hold").await.unwrap().into_inner();
    assert_eq!(held.message().await.unwrap().unwrap(), "hello");
    assert_eq!(client.say(Some("anna")).await.unwrap_err().code(), Code::ResourceExhausted);
    drop(held);
    for _ in 0..2 {
        let mut ends = client.repeat_when_there_is_room().await;
        for _ in 0..2 {
            assert_eq!(ends.message().await.unwrap().unwrap(), "hello");
        }
        assert_eq!(ends.message().await.unwrap(), None);
        let trailers = ends.trailers().await.unwrap().unwrap();
        assert_eq!(trailers.get("grpc-status").unwrap(), "0");
    }
}

#[tokio::test]
async fn without_the_store_a_closed_policy_is_unavailable() {
    let redis = RedisServer::start();
    let closed = Policy::new("api", ["9 / hour"]).unwrap().with_when_store_fails(WhenStoreFails::Closed);
    let store = redis.url().parse().unwrap();
    let builder = Limiter::builder().with_policy(closed).and_then(|builder| builder.store_at(&store));
    let limiter = builder.unwrap().build();
    let mut client = client(RateLimitLayer::new(limiter.policy("api").unwrap())).await;
    assert_eq!(client.say(None).await.unwrap().into_inner(), "hello");
    drop(redis);
    assert_eq!(client.say(None).await.unwrap_err().code(), Code::Unavailable);
}
