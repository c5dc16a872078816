//! The connection to Postgres that the store of meters and the store of records share: the URL, TLS, connecting and its
//! timeouts, session settings, and what an error means.
//!
//! Each of them has its own pool or single connection, its own tables and its own statements.

mod address;
mod connection;
mod error;
mod schema_name;
#[cfg(feature = "tls")]
mod tls;

pub use address::{Address, AddressError};
pub use connection::{BEGIN_MIGRATION, Connection, LOCK_WAIT_MAX};
pub use error::{ErrorText, classify, idled_out, is_refused, timed_out};
pub use schema_name::SchemaName;
