//! What happens when the store does not answer: [`breaker`] notices, [`fallback`] decides meanwhile from [`known_usage`],
//! and [`debts`] are told to the store when it is back. Each of the store's [`parts`] fails by itself.

pub(crate) mod breaker;
pub(crate) mod debts;
pub(crate) mod fallback;
pub(crate) mod known_usage;
pub(crate) mod local_share;
pub(crate) mod owed;
pub(crate) mod parts;
