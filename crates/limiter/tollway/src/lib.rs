//! Rate limits that are never exceeded: for the APIs you call and the API you serve.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tollway::{Durations, Limiter};
//!
//! let limiter = Limiter::from_config("tollway.toml").await?;
//! let mut permit = limiter.take("gemini").subject("team-a").cost("tokens", 3_750).max_wait(30.seconds()).await?;
//! permit.begin().await?; // just before the call goes out
//! permit.settle("tokens", 3_120).await?; // what it really took
//! # Ok(()) }
//! ```
//!
//! Start with [`Limiter`]. A [`Take`] asks for a permit; the outcome is a [`Permit`] or [`Denied`]. [`tollway_core`]
//! defines limits, policies and meters. Less common parts are in modules: [`config`], [`metrics`], [`source`],
//! [`incident`], [`alarm`] and [`ticket`].

mod adhoc;
pub mod alarm;
mod apis;
mod background;
mod book;
mod bound_charges;
mod bound_policy;
pub mod config;
mod debit;
mod debts;
mod denied;
mod durations;
mod error;
mod fallback;
mod feedback;
mod granted;
mod handle;
pub mod incident;
mod known_usage;
mod lease;
mod limiter;
mod local_share;
pub mod metrics;
mod open;
mod outage;
mod pending;
mod pending_take;
mod permit;
mod preview;
mod queue;
mod recent_grants;
mod registry;
mod renewal;
mod secret;
mod settings;
pub mod source;
mod state;
mod subjects_max;
mod take;
mod timer;
mod usage;
mod waiting;

pub use adhoc::BindError;
pub use config::{Config, ConfigError, StoreUrl};
pub use denied::Denied;
pub use durations::Durations;
pub use error::{BuildError, TakeError};
pub use granted::{Granted, Taken};
pub use handle::PolicyHandle;
pub use limiter::{Limiter, LimiterBuilder, ReloadStatus};
pub use outage::StoreStatus;
pub use pending::Pending;
pub use permit::Permit;
pub use secret::Secret;
pub use settings::SetLimitError;
pub use take::{Take, Tries, Trying, Waits};
pub use usage::{LimitUsage, Usage};

pub use tollway_core as core;
pub use tollway_core::{
    Clock, Limit, Name, Policy, Setting, Settled, Span, Store, StoreError, Subject, Timestamp,
};

/// A permit as data, for a process that goes on with it where another one took it.
pub mod ticket {
    pub use crate::permit::{Ticket, TicketBegun, TicketCharge};
}
