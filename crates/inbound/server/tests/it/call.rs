//! A gRPC client: one HTTP/2 connection, unary calls, and frames as bytes, so that it can also send invalid ones.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollway_server::ListenerKind;

use crate::messages::{RateLimitRequest, RateLimitResponse};
use crate::running::{LONG, Running};

pub(crate) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// One connection.
pub(crate) struct Connection {
    runtime: Runtime,
    send: SendRequest<Full<Bytes>>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) http_status: u16,
    pub(crate) status: Option<u32>,
    pub(crate) message: String,
    /// The body, with the message's five-byte prefix.
    pub(crate) body: Bytes,
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let send = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            send
        });
        Self { runtime, send }
    }

    /// Sends these bytes as the body of a call.
    pub(crate) fn send(&mut self, path: &str, content_type: &str, body: impl Into<Bytes>) -> Reply {
        self.send_with(path, content_type, &[], body)
    }

    /// The same, with more metadata.
    pub(crate) fn send_with(
        &mut self,
        path: &str,
        content_type: &str,
        metadata: &[(&str, String)],
        body: impl Into<Bytes>,
    ) -> Reply {
        self.send_requests([request(path, content_type, metadata, body.into())]).remove(0)
    }

    /// Sends requests at once, each a path, a content type and a body.
    pub(crate) fn send_all<'a>(
        &mut self,
        requests: impl IntoIterator<Item = (&'a str, &'a str, Bytes)>,
    ) -> Vec<Reply> {
        let requests = requests.into_iter();
        self.send_requests(requests.map(|(path, content_type, body)| request(path, content_type, &[], body)))
    }

    fn send_requests(&mut self, requests: impl IntoIterator<Item = Request<Full<Bytes>>>) -> Vec<Reply> {
        let Self { runtime, send } = self;
        let replies = requests.into_iter().map(|request| {
            let mut send = send.clone();
            async move {
                send.ready().await.unwrap();
                let (head, body) = send.send_request(request).await.unwrap().into_parts();
                let body = body.collect().await.unwrap();
                let trailers = body.trailers().cloned().unwrap_or_default();
                let header = |name| {
                    let value = trailers.get(name).or(head.headers.get(name));
                    value.map(|value| value.to_str().unwrap().to_owned())
                };
                Reply {
                    http_status: head.status.as_u16(),
                    status: header("grpc-status").map(|status| status.parse().unwrap()),
                    message: header("grpc-message").unwrap_or_default(),
                    body: body.to_bytes(),
                }
            }
        });
        let replies: Vec<_> = replies.collect();
        runtime.block_on(async { tokio::time::timeout(LONG, join_all(replies)).await.expect("an answer") })
    }

    /// A call with one message.
    pub(crate) fn call(&mut self, path: &str, message: &impl Message) -> Reply {
        self.send(path, "application/grpc", framed(&message.encode_to_vec()))
    }

    /// A request that must succeed.
    pub(crate) fn ask(&mut self, request: &RateLimitRequest) -> RateLimitResponse {
        let reply = self.call(SHOULD_RATE_LIMIT, request);
        assert_eq!((reply.http_status, reply.status), (200, Some(0)), "{reply:?}");
        reply.read()
    }

    /// A request that must fail; its code and message.
    pub(crate) fn ask_wrongly(&mut self, request: &RateLimitRequest) -> (u32, String) {
        let reply = self.call(SHOULD_RATE_LIMIT, request);
        assert_eq!((reply.http_status, &reply.body[..]), (200, &b""[..]), "{reply:?}");
        (reply.status.unwrap(), reply.message)
    }
}

impl Reply {
    /// The one message of the body.
    pub(crate) fn read<M: Message + Default>(&self) -> M {
        let (prefix, message) = self.body.split_at(5);
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        assert_eq!(prefix, [&[0][..], &length].concat());
        M::decode(message).unwrap()
    }
}

impl Running {
    /// A gRPC connection to the listener for decisions.
    pub(crate) fn envoy(&self) -> Connection {
        Connection::to(self.tcp(ListenerKind::Decisions))
    }
}

/// A message with its prefix.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn request(path: &str, content_type: &str, metadata: &[(&str, String)], body: Bytes) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://test{path}")).header("content-type", content_type);
    let request = metadata.iter().fold(request, |request, (name, value)| request.header(*name, value));
    request.header("te", "trailers").body(Full::new(body)).unwrap()
}
