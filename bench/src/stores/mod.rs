//! Groups redis, postgres and aws: limits in a store that every process shares, taken from by many callers at once.
//!
//! All who are measured implement [`Entrant`](callers::Entrant). Each round starts one anew on an empty store and a
//! runtime of its own, so that nothing of the one before it still runs.

mod callers;
mod contest;
pub(crate) mod dynamo;
mod figures;
mod ours;
mod periods;
pub(crate) mod postgres;
pub(crate) mod redis;
mod round;
