//! A Tollway store in Redis or Valkey: every call is one script, and so one atomic step and one round trip.
//!
//! ```no_run
//! use tollway_redis::RedisStore;
//!
//! let store = RedisStore::open("redis://127.0.0.1:6379/0?prefix=tollway:&deadline=250ms")?;
//! # Ok::<(), tollway_core::StoreError>(())
//! ```
//!
//! Where to look: `script/*.lua` is the engine once more, to be read beside `tollway-core`; [`RedisLink`] sends calls to it;
//! `request.rs`, `operation.rs` and `reply.rs` are the words between the two; [`Address`] is what a URL says; [`RedisStore`] is the whole.
//!
//! # What is kept
//!
//! | key | what | lives |
//! |---|---|---|
//! | `tollway:1:{s:SUBJECT}:POLICY` | a line, packed | until it is as good as new |
//! | `tollway:1:{s:SUBJECT}:POLICY:WRITER` | the last call of one process on that line, and its answer | 60 s |
//! | `tollway:1:settings` | limits as data, a hash | until they are cleared; the one key without an end |
//!
//! With `?layout=consumers`, counts lie in keys that a system already running counts in, too: see `consumers/mod.rs`.

mod address;
mod bundle;
mod clock;
mod connection;
mod consumers;
mod error;
mod keys;
mod link;
mod operation;
mod pack;
mod reply;
mod request;
mod run;
mod script;
mod settings;
mod store;
mod tls;
mod windows;

pub use address::Address;
pub use consumers::counter_key;
pub use link::RedisLink;
pub use store::RedisStore;
