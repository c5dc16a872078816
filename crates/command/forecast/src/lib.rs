//! What a policy will do, before anything runs: [`plan`] computes when a backlog is done, [`simulate`] replays a traffic log.

#![forbid(unsafe_code)]

pub mod plan;
pub mod simulate;
