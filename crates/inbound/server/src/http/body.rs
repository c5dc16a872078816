//! Bodies: read completely within a bound of bytes and time, and written as JSON.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode, Version};
use serde::Serialize;
use tokio::time::timeout;

use super::body_memory::{BodyMemory, PartialBody};
use super::problem::Problem;
use super::response_body::Body;
use crate::bounds::BODY_BYTES_MAX;
use crate::connection::Caller;

/// Capacity for the response to a take under a few limits, so that writing it does not reallocate.
const BODY_BYTES_USUAL: usize = 512;

/// Capacity for the headers of such a response, for the same reason.
const HEADERS_USUAL: usize = 8;

/// A response.
pub(crate) type Response = hyper::Response<Body>;

/// Reads the whole body of a request.
pub(crate) async fn read(caller: &Caller, request: Request<Incoming>) -> Result<Bytes, Problem> {
    let multiplexed = request.version() == Version::HTTP_2;
    // Drops the head: a client can hold hundreds of bodies open.
    let body = request.into_body();
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > BODY_BYTES_MAX {
        return Err(Problem::body_too_large());
    }
    let mut whole = pin!(collect(body, &caller.body_memory));
    // Most bodies arrive with their heads, and then need no timer.
    match poll_fn(|context| Poll::Ready(whole.as_mut().poll(context))).await {
        Poll::Ready(collected) => collected,
        Poll::Pending => {
            let stream = caller.body_memory.open_stream();
            if multiplexed && stream.is_none() {
                return Err(Problem::too_many_bodies());
            }
            match timeout(caller.deadlines.body_time(), whole).await {
                Ok(collected) => collected,
                Err(_) => Err(Problem::body_too_slow()),
            }
        }
    }
}

/// Most bodies are one frame, which is not copied.
async fn collect(mut body: Incoming, memory: &BodyMemory) -> Result<Bytes, Problem> {
    let mut piece = next_piece(&mut body).await?;
    if body.is_end_stream() {
        let whole = piece.unwrap_or_default();
        return if whole.len() > BODY_BYTES_MAX { Err(Problem::body_too_large()) } else { Ok(whole) };
    }
    let mut held = PartialBody::new(memory);
    while let Some(more) = piece {
        held.push(&more)?;
        piece = next_piece(&mut body).await?;
    }
    Ok(held.into_bytes())
}

async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("the body is incomplete"))?;
        // Frames without data are trailers, which are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// A response in JSON.
pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    of_type(status, "application/json", answer)
}

pub(super) fn of_type(status: StatusCode, media_type: &'static str, answer: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    match serde_json::to_writer(&mut bytes, answer) {
        Ok(()) => of_bytes(status, media_type, bytes),
        Err(error) => {
            tracing::error!(%error, "cannot serialize a response");
            no_content(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// A response in the text format of Prometheus.
pub(crate) fn metrics_text(text: String) -> Response {
    of_bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
}

/// A JSON list of entries that are JSON already.
pub(super) fn json_list(entries: &[Vec<u8>]) -> Response {
    let bytes = [&b"["[..], &entries.join(&b','), b"]"].concat();
    of_bytes(StatusCode::OK, "application/json", bytes)
}

fn of_bytes(status: StatusCode, media_type: &'static str, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::new(Bytes::from(bytes)));
    *response.status_mut() = status;
    response.headers_mut().reserve(HEADERS_USUAL);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// A response without a body.
pub(crate) fn no_content(status: StatusCode) -> Response {
    let mut response = Response::new(Body::default());
    *response.status_mut() = status;
    response
}
