//! Administration: behind a door of its own, for those with a token.

mod access;
mod answers;
mod tokens;

pub(crate) use access::may_enter;
pub(crate) use answers::{
    HealthAnswer, LimitsAnswer, PoliciesAnswer, UsageAnswer, clear_limit, health, metrics, policies, ready,
    reset, set_limit, usage,
};
pub(crate) use tokens::Tokens;
