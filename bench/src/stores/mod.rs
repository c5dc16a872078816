//! Groups redis, postgres and aws: many concurrent callers on limits in a shared store.
//!
//! All participants implement [`Entrant`](callers::Entrant). Each round starts with an empty store and a new runtime, so that
//! nothing of the previous one still runs.

mod callers;
mod contest;
pub(crate) mod dynamo;
mod figures;
mod ours;
mod periods;
pub(crate) mod postgres;
pub(crate) mod redis;
mod round;
