//! Decisions for programs in any language: the server of Tollway.
//!
//! [`Server::serve`] takes its sockets from its caller and serves until it is told to stop. Where to look:
//!
//! - connections: `listener` binds, `socket_file` on unix sockets, `open_listeners` opens and closes, `accept` accepts,
//!   `connection_limits` bounds and `counts` counts them, `worker` is a thread that serves, `connection` one client's, `socket`
//!   its bytes
//! - answers: `http`, `grpc` and `resp` read and write, `known_policies` caches lookups of a worker, `permit` signs permits
//! - the rest: `admin` for operators, `consumers` for callers with their own limits (with the feature of that name), `rules`
//!   is what a reload changes and `needs_restart` what it cannot, `config` the file, `metrics` the metrics, `bounds` every
//!   bound

mod accept;
mod admin;
mod bounds;
mod config;
mod connection;
mod connection_limits;
#[cfg(feature = "consumers")]
mod consumers;
mod counts;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod http;
mod known_policies;
mod listener;
mod metrics;
mod needs_restart;
mod open_listeners;
mod permit;
mod resp;
mod rules;
mod server;
mod socket;
mod socket_file;
mod store_labels;
mod store_watch;
#[cfg(feature = "tls")]
mod tls;
mod worker;

pub use bounds::{
    ADMINISTRATION_CONNECTIONS_MAX, BODY_BYTES_MAX, HEAD_BYTES_MAX, Patience, TAKES_PER_BATCH_MAX,
    UNITS_PER_COST_MAX,
};
pub use config::{
    CONNECTIONS_DEFAULT, CONNECTIONS_PER_ADDRESS_DEFAULT, ConfigWithServer, DescriptorRule, DescriptorTarget,
    ENTRIES_PER_RULE_MAX, EntryPattern, GRACE_DEFAULT, ListenAddress, ServerConfig, SubjectPiece,
    SubjectTemplate, TlsFiles, Token, ValuePattern,
};
pub use error::ServeError;
pub use listener::{ListenerKind, Listeners};
pub use metrics::SERVER_METRICS;
pub use needs_restart::needs_restart;
pub use server::Server;
