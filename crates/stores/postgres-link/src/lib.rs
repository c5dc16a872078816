//! The connection to Postgres that the store of meters, the store of records and the pipeline's engine share: the URL, TLS,
//! connecting and its timeouts, session settings, a small pool, migrations, and what an error means.
//!
//! Each of them has its own sessions, its own tables and its own statements.

mod address;
mod connection;
mod error;
mod migrations;
mod pool;
mod schema_name;
#[cfg(feature = "tls")]
mod tls;

pub use address::{Address, AddressError};
pub use connection::{BEGIN_MIGRATION, Connection, LOCK_WAIT_MAX};
pub use error::{ErrorText, classify, idled_out, is_refused, timed_out};
pub use migrations::Migrations;
pub use pool::{Pool, PoolSession, PooledSession};
pub use schema_name::SchemaName;
