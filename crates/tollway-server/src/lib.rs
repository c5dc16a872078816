//! Decisions for programs in any language: the server of Tollway.
//!
//! [`Server::serve`] takes its sockets from its caller and serves until it is told to stop. Where to look:
//!
//! - the way in: `listener` binds, `socket_file` on unix sockets, `doors` opens and closes, `accept` lets in, `places`
//!   says how many and `counts` how many there were, `worker` is a thread that serves, `connection` one client's time with it, `socket` its bytes
//! - the answer: `http` and `resp` read and write, `decide` is the one way from every protocol to the limiter, `known` what a
//!   worker has looked up, `permit` what callers hold
//! - beside it: `admin` for those with a token, `consumers` for callers with limits of their own, `rules` for what a reload can change, `fixed` for what it
//!   cannot, `config` for what the file says, `metrics` for what is counted, `bounds` for every bound

mod accept;
mod admin;
mod bounds;
mod config;
mod connection;
mod consumers;
mod counts;
mod doors;
mod error;
mod fixed;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod http;
mod known_policies;
mod listener;
mod metrics;
mod permit;
mod places;
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
pub use fixed::needs_restart;
pub use listener::{Door, Listeners};
pub use metrics::SERVER_METRICS;
pub use server::Server;
