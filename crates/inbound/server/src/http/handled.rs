//! Requests that a handler answers. Names, web pages and tokens are checked as for the server's own routes.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, Version};

use super::caller_check::{self, CallerCheck};
use super::{Access, Problem, cors, route};
use crate::admin::{self, Administrator, Refused, TOKEN_HEADER};
use crate::connection::Caller;
use crate::handler::{AdminHandler, BoxError, Client, HandledBody, HttpHandler};
use crate::listener::{ListenerKind, Reach};
use crate::rules::Rules;
use crate::worker::{Busy, Worker, yield_before_park};

/// The media type of a stream without an end.
const EVENT_STREAM: &str = "text/event-stream";

/// Who answers the requests of a listener: one handler of its worker.
#[derive(Clone)]
pub(super) enum Handling {
    /// All of them.
    Gateway(Rc<dyn HttpHandler>),
    /// Those that have no route here.
    Administration(Rc<dyn AdminHandler>),
}

/// The body of an answer. Its connection is busy until it ends or is dropped.
pub(super) struct BusyBody {
    body: HandledBody,
    /// Of a stream of the administration, which has no end of its own.
    ends_with: Option<EndsWith>,
    _busy: Busy,
}

/// A stream ends when the server stops, and when a reload may have withdrawn the token that opened it.
struct EndsWith {
    worker: Rc<Worker>,
    rules: Arc<Rules>,
}

impl EndsWith {
    fn has_come(&self) -> bool {
        self.worker.is_stopping() || !Arc::ptr_eq(&self.rules, &self.worker.state.rules())
    }
}

impl Handling {
    pub(super) fn of(worker: &Worker, listener: ListenerKind) -> Option<Self> {
        match listener {
            ListenerKind::Gateway => worker.handler.clone().map(Self::Gateway),
            kind if kind.is_administration() => worker.admin_handler.clone().map(Self::Administration),
            _ => None,
        }
    }

    /// Answers one request, of a connection on which one may have had two lengths.
    pub(super) async fn answer(
        &self,
        worker: &Rc<Worker>,
        caller: &Caller,
        request: Request<Incoming>,
        has_two_lengths: bool,
    ) -> Response<BusyBody> {
        let multiplexed = request.version() == Version::HTTP_2;
        let busy = caller.deadlines.begin(multiplexed);
        // Before the token is checked, so that no stream outlives a reload between the two.
        let rules = Arc::clone(&worker.state.rules());
        let page = rules.callers.allowed_origin(request.headers());
        let preflight = page.as_ref().and_then(|_| self.preflight(&request));
        let mut response = match (preflight, self) {
            _ if has_two_lengths => refuse_two_lengths(),
            (Some(response), _) => response.map(complete),
            (None, Self::Gateway(handler)) => match may_enter(worker, caller, &request) {
                Ok(client) => handler.answer(request, client).await,
                Err(refused) => refuse(refused, worker).await,
            },
            (None, Self::Administration(_)) if route::has_path(caller.listener, request.uri().path()) => {
                super::answer_one_host(worker, caller, request).await.map(complete)
            }
            (None, Self::Administration(handler)) => match administrator(worker, caller, &request) {
                Ok(administrator) => handler.answer(request, administrator).await,
                Err(refused) => refuse(refused, worker).await,
            },
        };
        if let Some(origin) = page {
            cors::let_read(&mut response, origin);
            if let Self::Gateway(_) = self {
                cors::expose_headers(&mut response);
            }
        }
        yield_before_park::answered(multiplexed);
        let is_endless = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EVENT_STREAM);
        // A vendor's stream through the gateway has an end, and the grace of the shutdown.
        let ends_with = (is_endless && matches!(self, Self::Administration(_)))
            .then(|| EndsWith { worker: Rc::clone(worker), rules: Arc::clone(&rules) });
        response.map(|body| BusyBody { body, ends_with, _busy: busy })
    }

    fn preflight(&self, request: &Request<Incoming>) -> Option<super::Response> {
        match self {
            Self::Gateway(_) => cors::preflight_of_handler(request),
            Self::Administration(_) => cors::preflight(request),
        }
    }
}

async fn refuse(refused: Refused, worker: &Worker) -> Response<HandledBody> {
    Box::pin(refused.answer_late(worker)).await.into_response().map(complete)
}

/// Who asks a handler of the administration.
fn administrator(
    worker: &Worker,
    caller: &Caller,
    request: &Request<Incoming>,
) -> Result<Administrator, Refused> {
    if caller.health_only {
        return Err(Problem::too_many_connections().into());
    }
    caller_check::has_one_host(request)?;
    let rules = worker.state.rules();
    // A link on another page may lead to a page here, but not into a frame, and not to what pages fetch: streams cost something.
    let says = |name: &str, value: &str| request.headers().get(name).is_some_and(|said| said == value);
    let follows_link = request.method() == Method::GET
        && !request.uri().path().starts_with("/v1/")
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document");
    let check = if follows_link { CallerCheck::Host } else { CallerCheck::HostAndPage };
    caller_check::may_call(check, &rules, worker, caller, request)?;
    Administrator::of(&rules, worker, caller, request.headers())
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
        // The worker wakes its connections when it stops.
        if self.ends_with.as_ref().is_some_and(EndsWith::has_come) {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
