//! The server behind the proxies: it answers every call with the same few bytes, and `/events` with a stream.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A short answer of a language model.
const ANSWER: &[u8] = br#"{"id":"chatcmpl-0123456789","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The Nile, of 6,650 km: it begins in Burundi or Rwanda, and passes eleven countries on its way to the sea."},"finish_reason":"stop"}],"usage":{"prompt_tokens":41,"completion_tokens":29,"total_tokens":70}}"#;
const EVENT: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n";
const EVENTS: usize = 20;
const EVENT_EVERY: Duration = Duration::from_millis(10);

/// Starts it on a thread of its own.
pub(crate) fn start() -> SocketAddr {
    let (send, address) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::spawn(
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        });
    });
    address.recv().unwrap()
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let streams = request.uri().path().ends_with("/events");
    // A proxy keeps a connection only if the body was read.
    let _ = http_body_util::BodyExt::collect(request.into_body()).await;
    let kind = if streams { "text/event-stream" } else { "application/json" };
    let left = if streams { EVENTS } else { 1 };
    let answer = Answer { left, streams, pause: None };
    Ok(Response::builder().header("content-type", kind).body(answer).unwrap())
}

/// One piece, or events with a pause before each but the first.
struct Answer {
    left: usize,
    streams: bool,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(context));
        }
        self.left -= 1;
        let piece = if self.streams { EVENT } else { ANSWER };
        self.pause = self.streams.then(|| Box::pin(tokio::time::sleep(EVENT_EVERY)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece)))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self.streams {
            true => hyper::body::SizeHint::default(),
            false => hyper::body::SizeHint::with_exact(if self.left == 0 { 0 } else { ANSWER.len() as u64 }),
        }
    }
}
