//! Bodies over HTTP/2: one client can begin many concurrently.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollway_server::ListenerKind;

use crate::running::Setup;

const POLICIES: &str = "[policies.api]\nlimits = [\"1000 / hour\"]";

/// A body in pieces that ends or stalls.
struct Pieces {
    left: Vec<Bytes>,
    ends: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.left.pop() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

async fn ask(
    client: &http2::SendRequest<Pieces>,
    body: Pieces,
) -> hyper::Result<Response<hyper::body::Incoming>> {
    let mut client = client.clone();
    client.ready().await?;
    client.send_request(Request::post("http://test/v1/take").body(body).unwrap()).await
}

/// T19, T21: the memory for incomplete bodies of a client is bounded. A body in many pieces is one body.
#[test]
fn incomplete_bodies_are_bounded() {
    let server = Setup::of(POLICIES).start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(server.tcp(ListenerKind::Decisions)).await.unwrap();
        let (client, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let letters = r#"{"policy":"api"}"#.bytes().rev().map(|letter| Bytes::from(vec![letter])).collect();
        let answer = ask(&client, Pieces { left: letters, ends: true }).await.unwrap();
        assert_eq!(answer.status(), 200);

        let mut begun = JoinSet::new();
        for _ in 0..100 {
            let client = client.clone();
            let body = Pieces { left: vec![Bytes::from(vec![b' '; 60_000])], ends: false };
            begun.spawn(async move { ask(&client, body).await });
        }
        let told = begun.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!((told.status().as_u16(), &told.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        let told = told.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&told).contains("urn:tollway:too-many-bodies"), "{told:?}");
        connection.abort();
    });
    assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
}

/// T21: streams that a client opens and does not finish count in the memory of their worker, so many connections of one
/// address cannot fill it. A client that sends its body with its head is served meanwhile.
#[test]
fn open_streams_are_bounded() {
    const CONNECTIONS: usize = 70;
    const STREAMS: usize = 250;
    let mut setup = Setup::of(POLICIES);
    setup.config.workers = Some(1);
    let server = setup.start();
    let address = server.tcp(ListenerKind::Decisions);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async {
        let mut streams = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.unwrap();
            let (client, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            for _ in 0..STREAMS {
                let client = client.clone();
                streams.spawn(async move { ask(&client, Pieces { left: Vec::new(), ends: false }).await });
            }
        }
        // 64 MiB at 6 KiB each are 10,922 streams; only those beyond are answered.
        let answered = streams.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(server.client().take(r#"{"policy":"api"}"#).status, 200);
        answered.status().as_u16()
    });
    assert_eq!(refused, 503);
}
