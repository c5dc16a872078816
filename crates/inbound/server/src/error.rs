//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use crate::{ListenAddress, Token};

/// Why a server does not start or a reload fails. Each message says how to fix it.
#[derive(thiserror::Error)]
pub enum ServeError {
    /// `[consumers]` cannot be used.
    #[error("[consumers]: {0}")]
    Consumers(String),
    /// Another process listens at the address.
    #[error(
        "{0} is in use: another process listens there; stop it, or listen elsewhere (`listen`, `admin`, `grpc` or `resp` of [server])"
    )]
    Taken(ListenAddress),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// The cause.
        error: io::Error,
    },
    /// Administration would be open to other machines without a token.
    #[error(
        "the administration would listen on {0}, which other machines can reach, without a token; set one ([server.tokens], or `admin_token` of [gateway]), or listen on 127.0.0.1 or a unix socket"
    )]
    OpenAdministration(ListenAddress),
    /// Metrics would be open to other machines without a token.
    #[error(
        "the metrics would be served on {0}, which other machines can reach, without a token; set `read` in [server.tokens], or serve them on 127.0.0.1"
    )]
    OpenMetrics(ListenAddress),
    /// A token cannot be read, or is not a valid one.
    #[error("the token {token} cannot be used: {problem}")]
    Token {
        /// Where the config says it is.
        token: Token,
        /// What is wrong.
        problem: String,
    },
    /// The certificate or its key cannot be used.
    #[error("TLS cannot be used: {path}: {problem}", path = .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The config sets TLS, which this build does not have.
    #[error("[server.tls] needs TLS, which this build does not have; build it with `--features tls`")]
    NoTls,
    /// The system refuses a thread or random bytes.
    #[error("the system refuses a resource: {0}")]
    Machine(String),
}

tollway::core::debug_as_display!(ServeError);
