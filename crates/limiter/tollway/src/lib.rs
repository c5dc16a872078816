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

pub mod alarm;
mod apis;
mod background;
pub mod config;
mod durations;
mod error;
mod feedback;
pub mod incident;
mod lease;
mod limiter;
pub mod metrics;
mod open;
mod outage;
mod permit;
mod policy;
mod secret;
pub mod source;
mod state;
mod take;

pub use config::{Config, ConfigError, StoreUrl};
pub use durations::Durations;
pub use error::{BuildError, TakeError};
pub use limiter::{Limiter, LimiterBuilder, ReloadStatus};
pub use outage::parts::{NodeAway, StoreStatus};
pub use permit::Permit;
pub use policy::adhoc::BindError;
pub use policy::handle::PolicyHandle;
pub use policy::settings::SetLimitError;
pub use policy::usage::{LimitUsage, Usage};
pub use secret::Secret;
pub use take::builder::{Take, Tries, Trying, Waits};
pub use take::denied::Denied;
pub use take::granted::{Granted, Taken};
pub use take::pending::Pending;

pub use tollway_core as core;
pub use tollway_core::{
    Clock, Limit, Name, Policy, Setting, Settled, Span, Store, StoreError, Subject, Timestamp,
};

/// A permit as data, for a process that goes on with it where another one took it.
pub mod ticket {
    pub use crate::permit::{Ticket, TicketBegun, TicketCharge};
}
