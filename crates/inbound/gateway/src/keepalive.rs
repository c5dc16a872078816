//! Comments for callers that wait for a stream of events, so that no proxy between them closes the silent connection.
//!
//! The answer begins before the vendor has answered, so its status is 200 and the vendor's headers are lost; what goes wrong
//! afterwards is an event. Only for apis whose config asks for it, and only if the wait is longer than the interval.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tollway_server::{BoxError, HandledBody};

use crate::bounds::PIECES_MAX;
use crate::call::ReadyCall;
use crate::refusal::Refusal;

/// A comment of an event stream, which clients ignore.
const PING: Bytes = Bytes::from_static(b": ping\n\n");

type Piece = Result<Frame<Bytes>, BoxError>;

/// Sends a call. If it waits longer than `interval`, its answer begins meanwhile.
pub(crate) async fn send(call: ReadyCall, interval: Duration) -> Result<Response<HandledBody>, Refusal> {
    let (pieces, stream) = mpsc::channel(PIECES_MAX);
    let (tell, mut told) = tokio::sync::oneshot::channel();
    tokio::task::spawn_local(async move {
        // A caller that leaves drops the stream, and with it the call.
        let gone = pieces.clone();
        tokio::select! {
            biased;
            () = gone.closed() => {}
            () = run(call, interval, tell, pieces) => {}
        }
    });
    let begun = tokio::time::timeout(interval, &mut told).await;
    let stream = Stream(stream);
    match begun {
        Ok(Ok(Ok(response))) => Ok(response),
        Ok(Ok(Err(refusal))) => Err(refusal),
        Ok(Err(_)) => Err(Refusal::bad_request("the call ended before its answer")),
        Err(_) => {
            told.close();
            // It may have been ready at the same moment.
            match told.try_recv() {
                Ok(ready) => ready,
                Err(_) => Ok(early(stream)),
            }
        }
    }
}

type Ready = Result<Response<HandledBody>, Refusal>;

async fn run(
    call: ReadyCall,
    interval: Duration,
    tell: tokio::sync::oneshot::Sender<Ready>,
    pieces: mpsc::Sender<Piece>,
) {
    let mut ready = pin!(call.send());
    let mut tell = Some(tell);
    let answered = loop {
        match tokio::time::timeout(interval, &mut ready).await {
            Ok(answered) => break answered,
            Err(_) => {
                tell = tell.filter(|tell| !tell.is_closed());
                if tell.is_none() && pieces.send(Ok(Frame::data(PING))).await.is_err() {
                    return;
                }
            }
        }
    };
    let answered = match tell {
        Some(tell) => match tell.send(answered) {
            Ok(()) => return,
            Err(answered) => answered,
        },
        None => answered,
    };
    match answered {
        Ok(response) => pass_on(response, &pieces).await,
        Err(refusal) => drop(pieces.send(Ok(Frame::data(refusal.into_event()))).await),
    }
}

/// The body of the vendor's answer; an error as an event, because the status was sent already.
async fn pass_on(response: Response<HandledBody>, pieces: &mpsc::Sender<Piece>) {
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let detail = format!("the vendor answered {status}");
        let refusal =
            Refusal::problem(status, "urn:tollway:vendor-error", "the vendor refused the call", detail);
        let _ = pieces.send(Ok(Frame::data(refusal.into_event()))).await;
        return;
    }
    while let Some(piece) = body.frame().await {
        if pieces.send(piece).await.is_err() {
            return;
        }
    }
}

fn early(stream: Stream) -> Response<HandledBody> {
    let mut response = Response::new(stream.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The pieces of an answer that has begun.
struct Stream(mpsc::Receiver<Piece>);

impl Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.0.poll_recv(context)
    }
}
