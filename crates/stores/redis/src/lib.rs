//! A Tollway store in Redis or Valkey: every call is one script, and so one atomic step and one round trip.
//!
//! ```no_run
//! use tollway_redis::RedisStore;
//!
//! let store = RedisStore::open("redis://127.0.0.1:6379/0?prefix=tollway:&deadline=250ms")?;
//! # Ok::<(), tollway_core::StoreError>(())
//! ```
//!
//! Where to look: `script/*.lua` is the engine in Lua and mirrors `tollway-core`; [`RedisLink`] sends calls to it;
//! `cluster/mod.rs` finds the node of a call; `request.rs`, `operation.rs` and `reply.rs` are the wire format; [`Address`] is a
//! parsed URL; [`RedisStore`] is the store.
//!
//! # What is kept
//!
//! | key | value | expires |
//! |---|---|---|
//! | `tollway:1:{s:SUBJECT}:POLICY` | an account, packed | when it no longer counts |
//! | `tollway:1:answers:WRITER` | the answers of one process that it has not read yet, as far as the store knows | 60 s |
//! | `tollway:1:{s:SUBJECT}:POLICY:WRITER` | on a Cluster in its place: the last answer of one process on that account | 60 s |
//! | `tollway:1:{o:NUMBER}:POLICY` | an account that subjects share which were new when the server was full | like another one |
//! | `tollway:1:settings` | limits set at run time, a hash | when they are cleared; the only key without expiry |
//! | `tollway:1:limiters:{tollway:1:settings}` | the limiters that follow them, a sorted set by the second of the last reading | two minutes |
//!
//! With `?layout=consumers`, counts lie in keys that a system already running counts in, too: see `consumers/mod.rs`.

mod account_list;
mod address;
mod call_batch;
mod clock;
mod cluster;
mod common_take;
mod connection;
mod consumers;
mod copies;
mod error;
mod keys;
mod link;
mod memory_watch;
mod node;
mod operation;
mod pack;
mod primary;
mod reply;
mod request;
mod room;
mod run;
mod script;
mod script_call;
mod servers;
mod settings;
mod shared_account;
mod shared_notice;
mod store;
mod tls;
mod turn;
mod version;
mod windows;

pub use address::Address;
pub use consumers::counter_key;
pub use link::RedisLink;
pub use store::RedisStore;
