//! The management of consumers: `info` tells of all of it, `limits` what is in force for one of them, `records` where that
//! comes from, `counters` what was counted, and `blocked` whether it may call at all.
//!
//! `record` and `six` are the bodies.

mod blocked;
mod counters;
pub(crate) mod fuzz;
mod info;
mod limits;
mod record;
mod records;
mod six;

use hyper::Request;
use hyper::body::Incoming;
use tollway_consumers::{ConsumerId, RecordId};

pub(crate) use blocked::BlockedBody;
pub(crate) use counters::CountersAnswer;
pub(crate) use info::RateLimitingAnswer;
pub(crate) use limits::{ActiveAnswer, CallLimitsAnswer};
pub(crate) use record::{RecordAnswer, RecordBody, RecordsAnswer};

use crate::connection::Caller;
use crate::http::{Problem, Response, read};
use crate::worker::Worker;

/// What is done with consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Management {
    RateLimiting,
    CallLimits,
    Records,
    CreateRecord,
    ChangeRecord,
    DeleteRecord,
    ActiveNow,
    ActiveInHour,
    Counters,
    ResetCounters,
    Blocked,
    SetBlocked,
}

/// Does it. The parameters are what stands in the path: a consumer, and of it a record or an hour.
pub(crate) async fn manage(
    what: Management,
    worker: &Worker,
    caller: &Caller,
    parameters: Vec<String>,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let consumers = worker.state.consumers().ok_or_else(Problem::no_consumers)?;
    let gate = &consumers.gate;
    let [consumer, of_it] = [0, 1].map(|place| parameters.get(place).map_or("", String::as_str));
    let consumer = ConsumerId::new(consumer).map_err(|error| Problem::bad_request(error.to_string()));
    match what {
        Management::RateLimiting => Ok(info::answer(worker, gate).await),
        Management::CallLimits => limits::call_limits(gate, &consumer?).await,
        Management::ActiveNow => limits::active_now(gate, &consumer?).await,
        Management::ActiveInHour => limits::active_in(gate, &consumer?, of_it).await,
        Management::Records => records::list(gate, &consumer?).await,
        Management::CreateRecord => {
            let consumer = consumer?;
            records::create(gate, consumer, &read(caller, request).await?).await
        }
        Management::ChangeRecord => {
            let (consumer, id) = (consumer?, record_id(of_it)?);
            records::change(gate, consumer, id, &read(caller, request).await?).await
        }
        Management::DeleteRecord => records::delete(gate, &consumer?, record_id(of_it)?).await,
        Management::Counters => counters::look(gate, &consumer?).await,
        Management::ResetCounters => counters::reset(gate, &consumer?).await,
        Management::Blocked => blocked::look(gate, &consumer?).await,
        Management::SetBlocked => {
            let consumer = consumer?;
            blocked::set(gate, &consumer, &read(caller, request).await?).await
        }
    }
}

fn record_id(text: &str) -> Result<RecordId, Problem> {
    text.parse().map_err(|error: tollway_consumers::RecordIdError| Problem::bad_request(error.to_string()))
}
