//! Administration: on its own listener, with tokens.

mod access;
mod actor;
mod administrator;
mod answers;
mod change_log;
mod link_token;
pub(crate) mod store;
mod tokens;
mod wrong_tokens;

pub(crate) use access::{Refused, TOKEN_HEADER, may_enter};
pub(crate) use actor::Actor;
pub use administrator::{AdminRight, Administrator};
pub(crate) use answers::{
    HealthAnswer, LimitsAnswer, PoliciesAnswer, UsageAnswer, clear_limit, health, metrics, policies, ready,
    reset, set_limit, usage,
};
pub use change_log::{Change, ChangeLog};
pub use link_token::LinkToken;
pub(crate) use store::{RedisHealthAnswer, StoreHealth, redis_health};
pub(crate) use tokens::{Right, Tokens, read_permit_secret};
pub(crate) use wrong_tokens::WrongTokens;
