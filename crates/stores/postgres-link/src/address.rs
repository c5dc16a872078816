//! Where Postgres is: the part of a URL that is Postgres's own, with defaults.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// How long connecting may take, with each host.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Where Postgres is, and which certificates to trust.
#[derive(Clone)]
pub struct Address {
    /// Hosts, user, database and the like.
    pub config: Config,
    /// A file with the certificates to trust under `sslmode=require`; otherwise those of the system.
    pub root_certificates: Option<PathBuf>,
}

/// Why a URL is no address. It never repeats a value of the URL, which may be a password.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Postgres's client does not understand it.
    #[error("{0}")]
    NotPostgres(String),
    /// There is no host in it.
    #[error("the URL names no host: postgres://user:password@host:port/database")]
    NoHost,
    /// It asks for TLS, which is not built in.
    #[error("sslmode=require needs a build with TLS")]
    NoTls,
}

tollway_core::debug_as_display!(AddressError);

impl Address {
    /// The address that this URL names, without the parameters that Postgres does not know.
    pub fn new(
        url: &str,
        parameters: &[&str],
        root_certificates: Option<PathBuf>,
    ) -> Result<Self, AddressError> {
        let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
        let mut config: Config = format!("{url}{query}").parse().map_err(|error| not_postgres(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(AddressError::NoHost);
        }
        if config.get_application_name().is_none() {
            config.application_name("tollway");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        let address = Self { config, root_certificates };
        if address.is_encrypted() && !cfg!(feature = "tls") { Err(AddressError::NoTls) } else { Ok(address) }
    }

    /// Whether all goes over TLS.
    pub fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }
}

/// The client's errors name a parameter or say that the URL ends early; none holds a value that was given.
fn not_postgres(error: &tokio_postgres::Error) -> AddressError {
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    AddressError::NotPostgres(reason)
}
