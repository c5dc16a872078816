//! Requests that a handler answers. Names, web pages and tokens are checked as for the server's own routes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, Version};

use super::caller_check::{self, CallerCheck};
use super::problem::Problem;
use super::{Access, cors};
use crate::admin::{self, Refused, TOKEN_HEADER};
use crate::connection::Caller;
use crate::handler::{BoxError, Client, HandledBody, HttpHandler};
use crate::listener::Reach;
use crate::worker::{Busy, Worker, yield_before_park};

/// The body of an answer. Its connection is busy until it ends or is dropped.
pub(super) struct BusyBody {
    body: HandledBody,
    _busy: Busy,
}

/// Answers one request, of a connection on which one may have had two lengths.
pub(super) async fn answer(
    worker: &Worker,
    caller: &Caller,
    handler: &dyn HttpHandler,
    request: Request<Incoming>,
    has_two_lengths: bool,
) -> Response<BusyBody> {
    let multiplexed = request.version() == Version::HTTP_2;
    let busy = caller.deadlines.begin(multiplexed);
    let page = worker.state.rules().callers.allowed_origin(request.headers());
    let preflight = page.as_ref().and_then(|_| cors::preflight_of_handler(&request));
    let mut response = match (preflight, may_enter(worker, caller, &request)) {
        _ if has_two_lengths => refuse_two_lengths(),
        (Some(response), _) => response.map(complete),
        (None, Ok(client)) => handler.answer(request, client).await,
        (None, Err(refused)) => Box::pin(refused.answer_late(worker)).await.into_response().map(complete),
    };
    if let Some(origin) = page {
        cors::let_read(&mut response, origin);
        cors::expose_headers(&mut response);
    }
    yield_before_park::answered(multiplexed);
    response.map(|body| BusyBody { body, _busy: busy })
}

/// Another server may read the rest of the body as a request, so nothing else is read from this connection.
fn refuse_two_lengths() -> Response<HandledBody> {
    let detail =
        "the body has two lengths: send one content-length, or transfer-encoding: chunked without one";
    let mut response = Problem::bad_request(detail).into_response().map(complete);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn complete(body: super::Body) -> HandledBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

fn may_enter(worker: &Worker, caller: &Caller, request: &Request<Incoming>) -> Result<Client, Refused> {
    caller_check::has_one_host(request)?;
    let rules = worker.state.rules();
    caller_check::may_call(CallerCheck::HostAndPage, &rules, worker, caller, request)?;
    let has_token = admin::may_enter(Access::Decide, &rules, worker, caller, request.headers())?.is_some();
    Ok(Client {
        is_trusted: has_token || caller.reach != Reach::Network,
        sent_token_as_authorization: has_token && !request.headers().contains_key(TOKEN_HEADER),
    })
}

impl Body for BusyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
