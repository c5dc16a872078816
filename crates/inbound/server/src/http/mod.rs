//! HTTP/1 and HTTP/2.
//!
//! `route` is the table of all paths, `body` reads and writes bodies, `request_bodies` and `response_bodies` are their types,
//! `body_memory` bounds incomplete ones, `for_proxy` puts a denial into headers, `problem` is an error, `openapi` describes
//! everything. `caller_check` refuses foreign web pages and names, `cors` lets allowed pages read, `host_port` parses a name.
//! `take`, `permit`, `observe` and `authorize` handle requests. `new_streams` answers HTTP/2 streams together,
//! `control_frames` closes connections that flood. `handled` lets a handler answer, after the same checks and that of
//! `framing` (bodies that have two lengths): all requests of a gateway, and those of the administration that have no route here.

pub(crate) mod authorize;
mod body;
mod body_memory;
pub(crate) mod caller_check;
mod control_frames;
mod cors;
pub(crate) mod for_proxy;
mod framing;
pub(crate) mod fuzz;
mod handled;
pub(crate) mod host_port;
pub(crate) mod identity_header;
mod new_streams;
mod observe;
mod observe_bodies;
pub(crate) mod openapi;
mod permit;
mod problem;
mod query;
mod request_bodies;
mod response_bodies;
mod response_body;
pub(crate) mod route;
mod take;

use std::convert::Infallible;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use body::{Response, json, metrics_text, no_content, read};
pub(crate) use body_memory::BodyMemory;
pub(crate) use caller_check::AllowedCallers;
pub(crate) use problem::Problem;
pub(crate) use query::Query;
pub(crate) use request_bodies::{LimitBody, ResetBody};
pub(crate) use response_body::Body;
pub(crate) use route::{Access, Operation};
pub(crate) use take::subject_or_shared;

use crate::admin::{self, Actor, Refused};
use crate::bounds::{
    CONNECTION_WINDOW, HEAD_BYTES_MAX, MISTAKEN_STREAMS_MAX, PING_INTERVAL, RESET_STREAMS_MAX,
    SEND_BUFFER_MAX, STREAM_WINDOW, STREAMS_MAX,
};
use crate::connection::Caller;
use crate::grpc;
use crate::worker::{ConnectionDeadlines, Worker, yield_before_park};
use control_frames::ControlFrameLimit;
use framing::{FramingCheck, TwoLengths};
use handled::Handling;
use new_streams::NewStreams;
use route::{Found, Route, find};

/// For responses that must not be cached.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The configured HTTP server of a worker.
pub(crate) struct Http {
    builder: auto::Builder<NewStreams>,
    new_streams: NewStreams,
}

impl Http {
    pub(crate) fn new() -> Self {
        let new_streams = NewStreams::default();
        let mut http = auto::Builder::new(new_streams.clone());
        // The worker enforces the head timeout, which is cheaper than hyper's timer per request. Responses are short: one
        // buffer for head and body costs less than a vectored write of two.
        http.http1().max_buf_size(HEAD_BYTES_MAX).header_read_timeout(None).writev(false);
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS_MAX)
            .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
            .max_local_error_reset_streams(MISTAKEN_STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL);
        Self { builder: http, new_streams }
    }
}

/// Serves one connection until the client closes it, a deadline cuts it off, or the server stops.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    caller: Caller,
) {
    let deadlines = Rc::clone(&caller.deadlines);
    let stream = ControlFrameLimit::new(stream, worker, caller.listener);
    let builder = &worker.http.builder;
    match Handling::of(worker, caller.listener) {
        Some(handling) => {
            let two_lengths = TwoLengths::default();
            let stream = TokioIo::new(FramingCheck::new(stream, &two_lengths));
            let service = service_fn(|request| {
                let (worker, caller, handling) = (Rc::clone(worker), caller.clone(), handling.clone());
                let has_two_lengths = two_lengths.get();
                async move {
                    let answer = handling.answer(&worker, &caller, request, has_two_lengths);
                    Ok::<_, Infallible>(answer.await)
                }
            });
            let mut connection = pin!(builder.serve_connection(stream, service));
            drive(worker, &deadlines, |context, shuts_down| {
                if shuts_down {
                    connection.as_mut().graceful_shutdown();
                }
                connection.as_mut().poll(context)
            })
            .await;
        }
        None => {
            let service = service_fn(|request: Request<Incoming>| {
                let (worker, caller) = (Rc::clone(worker), caller.clone());
                async move {
                    let multiplexed = request.version() == Version::HTTP_2;
                    let _busy = caller.deadlines.begin(multiplexed);
                    let response = answer(&worker, &caller, request).await;
                    yield_before_park::answered(multiplexed);
                    Ok::<_, Infallible>(response)
                }
            });
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            drive(worker, &deadlines, |context, shuts_down| {
                if shuts_down {
                    connection.as_mut().graceful_shutdown();
                }
                connection.as_mut().poll(context)
            })
            .await;
        }
    }
}

/// Polls a connection to its end. `poll` is told once to shut it down after its requests in flight.
async fn drive<E: Display>(
    worker: &Worker,
    deadlines: &ConnectionDeadlines,
    mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<Result<(), E>>,
) {
    let mut stops = false;
    let served = poll_fn(|context| {
        deadlines.served_by(context.waker());
        let mut shuts_down = worker.is_stopping() && !stops;
        stops |= shuts_down;
        loop {
            let polled = poll(context, shuts_down);
            shuts_down = false;
            if !worker.http.new_streams.answer() || polled.is_ready() {
                return polled;
            }
        }
    });
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Answers one request; an error becomes a response, too.
async fn answer(worker: &Rc<Worker>, caller: &Caller, request: Request<Incoming>) -> Response {
    if grpc::is_grpc_call(caller, request.headers()) {
        return grpc::answer(worker, caller, request).await;
    }
    // Before the request is moved; most configs allow no page.
    let page = worker.state.rules().callers.allowed_origin(request.headers());
    let mut response = match page.as_ref().and_then(|_| cors::preflight(&request)) {
        Some(response) => response,
        None => answer_one_host(worker, caller, request).await,
    };
    if let Some(origin) = page {
        cors::let_read(&mut response, origin);
    }
    response
}

/// Answers a request by its route, unless it has two hosts.
async fn answer_one_host(worker: &Rc<Worker>, caller: &Caller, request: Request<Incoming>) -> Response {
    match caller_check::has_one_host(&request) {
        Ok(()) => answer_route(worker, caller, request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Answers a request by its route.
async fn answer_route(worker: &Rc<Worker>, caller: &Caller, request: Request<Incoming>) -> Response {
    let head_only = request.method() == hyper::Method::HEAD;
    let found = match find(caller.listener, request.method(), request.uri().path()) {
        Ok(found) => found,
        Err(problem) => return problem.into_response(),
    };
    let Found { route, parameters } = found;
    let answered = match may_enter(route, worker, caller, &request) {
        Err(refused) => {
            drop(request);
            // Boxed, as below.
            Err(Box::pin(refused.answer_late(worker)).await)
        }
        Ok(token) => {
            let actor = Actor::new(token, caller.peer);
            operate(route.operation, parameters, worker, caller, &actor, request).await
        }
    };
    let mut response = answered.unwrap_or_else(Problem::into_response);
    if route.changes() {
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    }
    if head_only {
        *response.body_mut() = Body::default();
    }
    response
}

/// Checks the caller's name, page and token; returns the token's name.
fn may_enter(
    route: &Route,
    worker: &Worker,
    caller: &Caller,
    request: &Request<Incoming>,
) -> Result<Option<Arc<str>>, Refused> {
    if caller.health_only && !route.operation.is_health() {
        return Err(Problem::too_many_connections().into());
    }
    let rules = worker.state.rules();
    caller_check::may_call(route.check, &rules, worker, caller, request)?;
    if route.operation == Operation::Metrics && caller.reads_metrics_openly() {
        return Ok(None);
    }
    admin::may_enter(route.access, &rules, worker, caller, request.headers())
}

/// Answers an operation. None keeps the head of its request while it waits: a client can let hundreds wait on one connection,
/// and each head has up to 16 KiB.
async fn operate(
    operation: Operation,
    parameters: Vec<String>,
    worker: &Rc<Worker>,
    caller: &Caller,
    actor: &Actor,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    match operation {
        Operation::Take => take::answer(worker, caller, request).await,
        Operation::Authorize => authorize::answer(worker, caller, request).await,
        // The rare operations are boxed, so that they do not enlarge the future of every request, which is moved.
        Operation::Begin => Box::pin(permit::begin(worker, caller, request)).await,
        Operation::Settle => Box::pin(permit::settle(worker, caller, request)).await,
        Operation::Done => Box::pin(permit::done(worker, caller, request)).await,
        Operation::Return => Box::pin(permit::give_back(worker, caller, request)).await,
        Operation::Renew => Box::pin(permit::renew(worker, caller, request)).await,
        Operation::Observe => Box::pin(observe::answer(worker, caller, request)).await,
        Operation::OpenApi => Ok(openapi::answer(caller.listener, worker.admin_handler.as_deref())),
        Operation::Health => Ok(admin::health()),
        Operation::Ready => Ok(Box::pin(admin::ready(worker, caller, request)).await),
        Operation::Metrics => {
            drop(request);
            Box::pin(admin::metrics(worker)).await
        }
        Operation::Policies => Ok(admin::policies(worker)),
        Operation::Usage => Box::pin(admin::usage(worker, request)).await,
        Operation::Reset => Box::pin(admin::reset(worker, caller, actor, request)).await,
        Operation::SetLimit => Box::pin(admin::set_limit(worker, caller, actor, parameters, request)).await,
        Operation::ClearLimit => {
            drop(request);
            Box::pin(admin::clear_limit(worker, actor, parameters)).await
        }
        Operation::RedisHealth => Box::pin(admin::redis_health(worker, caller, request)).await,
        #[cfg(feature = "consumers")]
        Operation::Manage(what, shape) => {
            Box::pin(crate::consumers::manage(what, shape, worker, caller, actor, parameters, request)).await
        }
    }
}
