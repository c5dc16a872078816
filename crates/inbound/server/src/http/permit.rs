//! `POST /v1/{begin,settle,done,return,renew}`: the operations on permits.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tollway::Denied;
use tollway::ticket::{Ticket, TicketBegun};
use tollway_inbound::headers::whole_ms;

use super::body::{self, Response, json};
use super::problem::Problem;
use super::request_bodies::{PermitBody, SettleBody};
use super::response_bodies::{BeginAnswer, DoneAnswer, RenewAnswer, SettleAnswer, TakeAnswer};
use super::take::put_headers;
use crate::connection::Caller;
use crate::worker::Worker;

pub(super) async fn begin(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let ticket = ticket(worker, caller, request).await?;
    let answer = match ticket.begin(&worker.state.limiter).await? {
        TicketBegun::Now => BeginAnswer { delay_ms: 0, permit: None },
        TicketBegun::Early(delay) => BeginAnswer { delay_ms: whole_ms(delay.into()), permit: None },
        TicketBegun::Again { ticket, delay } => {
            BeginAnswer { delay_ms: whole_ms(delay.into()), permit: worker.state.seal.close(&ticket) }
        }
        TicketBegun::Denied(denied) => return Ok(denied_again(&denied)),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// The permit came too late and the new take is denied: the response is that of a denied take, without readings.
fn denied_again(denied: &Denied) -> Response {
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, &TakeAnswer::denial(denied, &[]));
    put_headers(&mut response, &[], denied.decision());
    response
}

pub(super) async fn settle(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let bytes = body::read(caller, request).await?;
    let body: SettleBody<'_> = serde_json::from_slice(&bytes).map_err(|error| Problem::bad_json(&error))?;
    let ticket = opened(worker, &body.permit)?;
    let settled = ticket.settle(&worker.state.limiter, body.cost.each()).await?;
    Ok(json(StatusCode::OK, &SettleAnswer::from(settled)))
}

pub(super) async fn give_back(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let settled = ticket(worker, caller, request).await?.give_back(&worker.state.limiter).await?;
    Ok(json(StatusCode::OK, &SettleAnswer::from(settled)))
}

pub(super) async fn done(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    ticket(worker, caller, request).await?.done(&worker.state.limiter).await?;
    Ok(json(StatusCode::OK, &DoneAnswer { done: true }))
}

pub(super) async fn renew(
    worker: &Worker,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let renewed = ticket(worker, caller, request).await?.renew(&worker.state.limiter).await?;
    Ok(json(StatusCode::OK, &RenewAnswer { renewed }))
}

async fn ticket(worker: &Worker, caller: &Caller, request: Request<Incoming>) -> Result<Ticket, Problem> {
    let bytes = body::read(caller, request).await?;
    let body: PermitBody<'_> = serde_json::from_slice(&bytes).map_err(|error| Problem::bad_json(&error))?;
    opened(worker, &body.permit)
}

pub(super) fn opened(worker: &Worker, permit: &str) -> Result<Ticket, Problem> {
    worker.state.seal.open(permit).map_err(|_| Problem::unknown_permit())
}
