//! What a URL says: where Postgres is, and which schema.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tollway_core::Retry;

use crate::records::{RecordsError, RecordsFault};

/// How long connecting may take, with each host.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Longer names Postgres cuts off.
const SCHEMA_BYTES_MAX: usize = 63;

/// Where Postgres is.
pub(super) struct Place {
    pub(super) config: Config,
    /// An identifier that needs no quotes, so that it can stand in a statement.
    pub(super) schema: String,
    #[cfg_attr(
        not(feature = "postgres-tls"),
        allow(dead_code, reason = "a build without TLS reads it and has no use for it")
    )]
    pub(super) root_certificates: Option<PathBuf>,
}

impl FromStr for Place {
    type Err = RecordsError;

    fn from_str(url: &str) -> Result<Self, RecordsError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut root_certificates) = ("tollway".to_owned(), None);
        let mut theirs = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => schema = read_schema(name)?,
                Some(("sslrootcert", file)) => root_certificates = Some(file.into()),
                _ => theirs.push(parameter),
            }
        }
        let rest = if theirs.is_empty() { String::new() } else { format!("?{}", theirs.join("&")) };
        let config: Config = format!("{address}{rest}").parse().map_err(|error| not_postgres(&error))?;
        Self { config, schema, root_certificates }.with_defaults()
    }
}

impl Place {
    /// Whether all goes over TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    fn with_defaults(mut self) -> Result<Self, RecordsError> {
        if self.config.get_hosts().is_empty() && self.config.get_hostaddrs().is_empty() {
            return Err(wrong("the URL names no host: postgres://user:password@host:port/database"));
        }
        if self.is_encrypted() && !cfg!(feature = "postgres-tls") {
            return Err(wrong("sslmode=require needs a build with the feature `postgres-tls`"));
        }
        if self.config.get_application_name().is_none() {
            self.config.application_name("tollway");
        }
        if self.config.get_connect_timeout().is_none() {
            self.config.connect_timeout(CONNECT_WITHIN);
        }
        Ok(self)
    }
}

fn read_schema(name: &str) -> Result<String, RecordsError> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && !name.starts_with("pg_");
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !begins || !name.chars().all(allowed) || name.len() > SCHEMA_BYTES_MAX {
        return Err(wrong(
            "schema is made of a-z, 0-9 and _, begins with a letter, but not with pg_, and has at most 63 characters",
        ));
    }
    Ok(name.to_owned())
}

/// The client's errors name a parameter; none holds a value that was given, which may be a password.
fn not_postgres(error: &tokio_postgres::Error) -> RecordsError {
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    wrong(&format!("the URL of records is not one of Postgres: {reason}"))
}

fn wrong(message: &str) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_and_postgres_parameters_are_told_apart() {
        let place: Place = "postgres://me:secret@db:5433/app?schema=bank&sslmode=disable".parse().unwrap();
        assert_eq!((place.schema.as_str(), place.config.get_ports()), ("bank", &[5433][..]));
        assert!(!place.is_encrypted());
        let plain: Place = "postgres://db/app".parse().unwrap();
        assert_eq!(plain.schema, "tollway");
    }

    #[test]
    fn wrong_urls_are_refused_and_the_password_is_never_shown() {
        for url in [
            "postgres:///app",
            "postgres://me:secret@db:port/app",
            "postgres://me:secret@db/app?schema=a;drop",
            "postgres://me:secret@db/app?schema=pg_mine",
            "postgres://me:secret@db/app?schema=",
            "postgres://me:secret@db/app?colour=secret",
        ] {
            let error = url.parse::<Place>().err().unwrap();
            assert_eq!(error.retry, Retry::Useless, "{url}");
            assert!(!error.message.contains("secret"), "{url}: {error}");
        }
    }
}
