//! gRPC: Envoy's rate limit service, and the health service for proxies and orchestrators.
//!
//! `service` handles a call, `message` has its messages, `descriptors` finds the rule and the subject of a descriptor,
//! `override_limits` caches limits that a proxy sends, `resolve` turns a request into charges, `answer` takes them and
//! writes the response.

pub(crate) mod answer;
pub(crate) mod descriptors;
pub(crate) mod fuzz;
mod message;
mod override_limits;
pub(crate) mod resolve;
pub(crate) mod service;

pub(crate) use descriptors::Descriptors;
pub use descriptors::find_descriptor_rule;
pub(crate) use service::{answer, is_grpc_call};

use override_limits::OverrideLimits;

/// What a worker keeps for gRPC.
#[derive(Default)]
pub(crate) struct Grpc {
    override_limits: OverrideLimits,
}
