//! Administration: on its own listener, with tokens.

mod access;
mod answers;
pub(crate) mod store;
mod tokens;

pub(crate) use access::may_enter;
pub(crate) use answers::{
    HealthAnswer, LimitsAnswer, PoliciesAnswer, UsageAnswer, clear_limit, health, metrics, policies, ready,
    reset, set_limit, usage,
};
pub(crate) use store::{RedisHealthAnswer, StoreHealth, redis_health};
pub(crate) use tokens::{Tokens, read_permit_secret};
