//! Consumers: callers of an API, each with dated records of six limits that add up to the limits in force.
//!
//! A [`Record`] says how often a consumer may call in each of six periods, and from when to when. [`Records`] stores them,
//! and several servers may share them. [`Active`] is their sum in one [`Hour`]:
//!
//! ```
//! use tollway_consumers::{Active, Amounts, CallLimits};
//! use tollway_core::Period;
//!
//! let hundred: Amounts = Amounts::new([-1, 100, -1, -1, -1, -1])?;
//! let fifty = Amounts::new([-1, 50, -1, -1, -1, -1])?;
//! let limits = CallLimits::sum([&hundred, &fifty]);
//! assert_eq!(limits.of(Period::Minute).map(|amount| amount.get()), Some(150));
//! assert_eq!(limits.of(Period::Second), None, "unlimited");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Records of one consumer may be valid at the same time, whatever their scopes, and add up.

mod active;
mod amounts;
mod cache;
mod config;
mod consumer_id;
mod date;
mod gate;
mod hour;
mod quote;
mod record;
mod records;
mod scope;
mod validity;
mod who;

pub use active::Active;
pub use amounts::{AMOUNT_MAX, AmountError, AmountProblem, Amounts, CallLimits, read_amount};
pub use cache::{ActiveCache, CACHED_CONSUMERS_MAX};
pub use config::{
    ANONYMOUS_PER_HOUR_DEFAULT, ConfigWithConsumers, ConsumerTokens, ConsumersConfig, RecordsUrl, WhoCalls,
};
pub use consumer_id::{CONSUMER_BYTES_MAX, ConsumerId, ConsumerIdError};
pub use date::{DateError, RecordDate, read_date, write_date};
pub use gate::{Counter, Gate, GateError};
pub use hour::{Hour, HourError};
pub use record::{Draft, Record, RecordId, RecordIdError};
#[cfg(feature = "postgres")]
pub use records::PostgresRecords;
pub use records::{
    Consumer, Generation, PAGE_MAX, RECORDS_PER_CONSUMER_MAX, Records, RecordsAnswer, RecordsError,
    RecordsFault, SqliteRecords, open_records,
};
pub use scope::{SCOPE_BYTES_MAX, Scope, ScopeError, ScopeProblem};
pub use tollway_inbound::{ANONYMOUS_POLICY, Admission, CONSUMERS_POLICY};
pub use validity::{Reversed, Validity};
pub use who::{TokensError, Who, WhoError, count_tokens, token_line};
