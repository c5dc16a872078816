//! The Tollway server: rate-limit decisions over HTTP, gRPC and the Redis protocol.
//!
//! [`Server::serve`] serves on sockets that its caller binds, until a shutdown future is ready. Where to look:
//!
//! - connections: `listener` binds (`socket_file` for unix sockets), `open_listeners` opens and closes, `accept` accepts,
//!   `connection_limits` limits and `counts` counts them, `worker` is a serving thread, `connection` serves one connection,
//!   `socket` reads and writes its bytes
//! - protocols: `http`, `grpc` and `resp`; `known_policies` caches a worker's policy lookups, `permit` signs permits
//! - bounds of takes: `bounded_take` applies `charge_budget` (charges in flight) and `new_subjects` (of a client network)
//! - `alone` says what a client may take while it cannot reach the server
//! - `handler` lets another crate answer the requests of a listener: the gateway, and the dashboard
//! - the rest: `admin` for operators, `consumers` for callers with their own limits (feature `consumers`), `rules` is what a
//!   reload changes, `needs_restart` names what it cannot, `config` is the file, `metrics` the metrics, `bounds` every bound

mod accept;
mod admin;
mod alone;
mod bounded_take;
mod bounds;
mod charge_budget;
mod config;
mod connection;
mod connection_limits;
#[cfg(feature = "consumers")]
mod consumers;
mod counts;
mod error;
mod exposure;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod handler;
mod http;
mod known_policies;
mod listener;
mod metrics;
mod needs_restart;
mod new_subjects;
mod observed;
mod once_a_minute;
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

pub use admin::{AdminRight, Administrator, Change, ChangeLog, LinkToken};
pub use bounds::{
    ADMINISTRATION_CONNECTIONS_MAX, BODY_BYTES_MAX, ClientTimeouts, HEAD_BYTES_MAX, OBSERVED_BODY_BYTES_MAX,
    OBSERVED_HEADERS_MAX, TAKES_PER_BATCH_MAX, UNITS_PER_COST_MAX,
};
pub use config::{
    CONNECTIONS_DEFAULT, CONNECTIONS_PER_ADDRESS_DEFAULT, ConfigWithServer, DescriptorRule, DescriptorTarget,
    ENTRIES_PER_RULE_MAX, EntryPattern, GRACE_DEFAULT, ListenAddress, MetricsDetail, NamedToken,
    NewSubjectsRate, ServerConfig, SubjectPiece, SubjectTemplate, TlsFiles, Token, TokenRight, ValuePattern,
};
pub use error::ServeError;
pub use exposure::Exposure;
pub use grpc::find_descriptor_rule;
pub use handler::{
    AdminHandler, BoxError, Client, HandledBody, HandledFuture, HttpHandler, MakeAdminHandler, MakeHandler,
};
pub use listener::{ListenerKind, Listeners};
pub use metrics::SERVER_METRICS;
pub use needs_restart::needs_restart;
pub use server::{ProgramSamples, Server};
