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
//! [`Limiter`] is the way in; [`Take`] is a question being put together; [`Permit`] is the answer yes, [`Denied`] the
//! answer no. What limits, policies and meters are is told in [`tollway_core`].

mod background;
mod bound;
mod breaker;
mod config;
mod debit;
mod denied;
mod durations;
mod error;
mod fallback;
mod granted;
mod handle;
mod lease;
mod limiter;
mod open;
mod permit;
mod preview;
mod probe;
mod queue;
mod registry;
mod renewal;
mod request;
mod settings;
mod take;
mod timer;
mod usage;
mod waiting;

pub use breaker::StoreStatus;
pub use config::{
    Api, ApiRate, CONFIG_BYTES_MAX, CONFIG_FILE, CONFIG_VARIABLE, Config, ConfigError, ConfigFile,
    ConfigProblem, ConfigWatch, MEMORY_LINES_MAX, Millionths, PROBLEMS_MAX, RateSettings, RemoteUrl,
    StoreUrl, StoreUrlError, WATCH_INTERVAL,
};
pub use denied::Denied;
pub use durations::Durations;
pub use error::{BuildError, TakeError};
pub use granted::{Granted, Taken};
pub use handle::PolicyHandle;
pub use limiter::{Limiter, LimiterBuilder, ReloadStatus};
pub use permit::Permit;
pub use settings::{Errand, SetLimitError};
pub use take::{Take, Tries, Trying, Waits};
pub use usage::{Inquiry, LimitUsage, Usage};

pub use tollway_core as core;
pub use tollway_core::{
    Clock, Limit, Name, Policy, Setting, Settled, Span, Store, StoreError, Subject, Timestamp,
};
