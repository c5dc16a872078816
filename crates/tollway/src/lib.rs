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

mod adhoc;
mod alarm;
mod background;
mod book;
mod bound_charges;
mod bound_policy;
mod config;
mod debit;
mod denied;
mod durations;
mod error;
mod fallback;
mod granted;
mod handle;
mod incident;
mod lease;
mod limiter;
mod metrics;
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
mod source;
mod state;
mod take;
mod timer;
mod usage;
mod waiting;

pub use adhoc::BindError;
pub use config::{
    ANONYMOUS_PER_HOUR_DEFAULT, ANONYMOUS_POLICY, Api, ApiRate, CONFIG_BYTES_MAX, CONFIG_FILE,
    CONFIG_VARIABLE, CONNECTIONS_DEFAULT, CONNECTIONS_PER_ADDRESS_DEFAULT, CONSUMERS_POLICY, Config,
    ConfigError, ConfigFile, ConfigProblem, ConfigWatch, ConsumerTokens, ConsumersConfig, DescriptorRule,
    DescriptorTarget, ENTRIES_PER_RULE_MAX, EntryPattern, GRACE_DEFAULT, ListenAddress, MEMORY_LINES_MAX,
    Millionths, PROBLEMS_MAX, RateSettings, RecordsUrl, RemoteUrl, ServerConfig, StoreUrl, StoreUrlError,
    SubjectPiece, SubjectTemplate, TlsFiles, Token, ValuePattern, WATCH_INTERVAL, WhoCalls,
};
pub use denied::Denied;
pub use durations::Durations;
pub use error::{BuildError, TakeError};
pub use granted::{Granted, Taken};
pub use handle::PolicyHandle;
pub use incident::Incident;
pub use limiter::{Limiter, LimiterBuilder, ReloadStatus};
pub use metrics::{
    CONNECTIONS_CUT_OFF, CONNECTIONS_OPEN, CONNECTIONS_TURNED_AWAY, CONNECTIONS_WAITED, Figure, METRICS,
    Metric, MetricKind, Sample, prometheus_text,
};
pub use outage::StoreStatus;
pub use pending::Pending;
pub use permit::{Permit, Ticket, TicketBegun, TicketCharge};
pub use recent_grants::Acquisition;
pub use secret::Secret;
pub use settings::SetLimitError;
pub use source::{
    Origin, PolicySource, SOURCE_EVERY_DEFAULT, SOURCE_EVERY_MAX, SOURCE_EVERY_MIN, Source, SourceAnswer,
    SourceError, SourceStatus, SourceUrl, SourceUrlError,
};
pub use take::{Take, Tries, Trying, Waits};
pub use usage::{LimitUsage, Usage};

pub use tollway_core as core;
pub use tollway_core::{
    Clock, Limit, Name, Policy, Setting, Settled, Span, Store, StoreError, Subject, Timestamp,
};
