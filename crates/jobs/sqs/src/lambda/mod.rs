//! A worker for AWS Lambda: SQS hands over messages, and each is worked on or given back before the function's time is over. The
//! pipeline's ledger decides about each, so jobs are counted, tried and committed once as with every other worker.
//!
//! Messages arrive before tokens here, so a message whose call does not fit the quota in time is given back as a failure of
//! the batch; that costs a receive. [`Runner`](tollway_pipeline::run::Runner) takes tokens first and is better wherever a process can
//! stay.
//!
//! `event` is what SQS sends and what it is answered, `worker` works on one event, `runtime_api` is Lambda's own protocol.

mod event;
mod runtime_api;
mod worker;

pub use event::{BatchFailures, EVENT_BYTES_MAX, EventError, SqsEvent, SqsRecord};
pub use runtime_api::{Invocation, RuntimeApi, RuntimeError};
pub use worker::{LambdaWorker, RETURN_BEFORE, WorkError};
