//! A Tollway store in Postgres, for programs on many machines that have a Postgres and want nothing else to run.
//!
//! It has no copy of the algorithms: a transaction locks the accounts, the engine decides here, and the transaction writes
//! the result. [`Remote`] combines concurrent operations, so a hot account costs one transaction for many takes.
//!
//! ```no_run
//! use tollway_postgres::PostgresStore;
//!
//! let store = PostgresStore::connect("postgres://app:secret@db.example.com/app?schema=tollway")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it needs
//!
//! A database, and the right to make a schema in it, or one that was made for it. Tables are made on first use. Each
//! process opens 4 connections at most; a pooler between must keep sessions apart, as it must for prepared statements.
//!
//! # When the server crashes
//!
//! What was granted is on disk before the caller hears of it, unless the URL says `crash=may-forget`: then nobody waits
//! for the disk, and a crash of the server may forget the grants of its last second, which are then granted again.
//! After a failover to a standby that lags behind, the same holds for what it had not received.
//!
//! # What is stored
//!
//! An account is JSON in a `bytea`: `SELECT convert_from(key, 'UTF8'), convert_from(line, 'UTF8')::json FROM tollway.lines`
//! shows it. Not `jsonb`, because Postgres never looks into it and need not understand it, and because bytes mean the
//! same in every encoding that a database may have.

mod account_list;
mod error;
mod expiry_rounding;
mod following;
mod link;
mod locked_rows;
mod options;
mod pool;
mod schema;
mod session;
mod settings;
mod settings_table;
mod statements;
mod store;
mod sweep;
mod transaction;

pub use link::PostgresLink;
pub use options::{PostgresOptions, PostgresUrlError};
pub use store::{PostgresStore, PostgresStoreError};
#[cfg(doc)]
use tollway_remote::Remote;
