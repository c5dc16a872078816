//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use crate::{ListenAddress, Token};

/// Why a server does not start. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What `[consumers]` says cannot be.
    #[error("[consumers]: {0}")]
    Consumers(String),
    /// Another process listens at the address.
    #[error(
        "{0} is taken: another process listens there; end it, or listen elsewhere (`listen`, `admin`, `grpc` and `resp` of [server] say where)"
    )]
    Taken(ListenAddress),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// Why not.
        error: io::Error,
    },
    /// Administration would be open to other machines without a token.
    #[error(
        "the administration would listen at {0}, where others can reach it, without a token; name one ([server.tokens]), or let it listen on 127.0.0.1 or a unix socket"
    )]
    OpenAdministration(ListenAddress),
    /// A token is not where the config says, or no good.
    #[error("the token {token} cannot be used: {problem}")]
    Token {
        /// Where it should be.
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
    /// The config asks for TLS, and this build has none.
    #[error("[server.tls] asks for TLS, which this build does not have; build it with `--features tls`")]
    NoTls,
    /// The machine has no thread or no randomness to give.
    #[error("the machine would not do it: {0}")]
    Machine(String),
}
