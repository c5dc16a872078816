//! The body of a 429.

use serde::Serialize;
use tollway::Denied;
use tollway_core::{Limit, Policy, Span};

use super::{CallerKind, LimitStatus, most_restrictive, too_many_requests, whole_ms};

/// The body of a denied request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TooManyRequests<'a> {
    /// 429.
    pub code: u16,
    /// Which limit, in words.
    pub message: String,
    /// The policy that denied the request.
    pub policy: &'a str,
    /// The limit that denied the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'a str>,
    /// When to retry.
    pub retry_after_ms: u64,
}

impl<'a> TooManyRequests<'a> {
    /// The denial of a take under this policy. The message names its most restrictive limit.
    pub fn of_denial(
        policy: &'a Policy,
        statuses: &[LimitStatus<'a>],
        denied: &'a Denied,
        caller: CallerKind,
    ) -> Self {
        let limit = most_restrictive(statuses).map(|status| status.limit).or(denied.limit());
        Self::new(policy, limit, caller, denied.decision().wait())
    }

    /// The denial by this limit of this policy.
    pub fn new(policy: &'a Policy, limit: Option<&'a Limit>, caller: CallerKind, retry_after: Span) -> Self {
        Self {
            code: 429,
            message: limit.map(|limit| too_many_requests(limit, caller)).unwrap_or_default(),
            policy: policy.name().as_str(),
            limit: limit.map(|limit| limit.name().as_str()),
            retry_after_ms: whole_ms(retry_after),
        }
    }
}
