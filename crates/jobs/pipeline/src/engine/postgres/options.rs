//! What a URL says: where Postgres is, which schema, how many connections.

use std::path::PathBuf;

use tollway_core::StoreUrlParts;
use tollway_postgres_link::{Address, AddressError, SchemaName};

use crate::EngineError;

/// The default number of connections. A transaction carries all operations of a kind that wait, so few are busy.
const CONNECTIONS_DEFAULT: usize = 4;

/// The most connections of one process: a server has a hundred for all.
const CONNECTIONS_MAX: usize = 64;

/// Beside the tables of the store of meters, which has `tollway`.
const SCHEMA_DEFAULT: &str = "tollway_pipeline";

/// Where the jobs are.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) address: Address,
    pub(super) schema: SchemaName,
    pub(super) connections: usize,
}

impl Options {
    /// Reads a URL. An error never repeats it, because it may hold a password.
    pub(super) fn read(url: &str) -> Result<Self, EngineError> {
        let parts = StoreUrlParts::read(url);
        let parts = parts.filter(|parts| matches!(parts.scheme, "postgres" | "postgresql"));
        let parts = parts.ok_or_else(|| EngineError::caller("a Postgres URL begins with postgres://"))?;
        let (mut theirs, mut certificates) = (Vec::new(), None::<PathBuf>);
        let mut connections = CONNECTIONS_DEFAULT;
        let mut schema = SchemaName::new(SCHEMA_DEFAULT).map_err(EngineError::caller)?;
        for parameter in parts.query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("schema", name) => schema = SchemaName::new(name).map_err(EngineError::caller)?,
                ("connections", count) => connections = read_connections(count)?,
                ("sslrootcert", file) => certificates = Some(file.into()),
                _ => theirs.push(parameter),
            }
        }
        let address = Address::new(parts.before_query, &theirs, certificates).map_err(no_address)?;
        Ok(Self { address, schema, connections })
    }
}

fn read_connections(count: &str) -> Result<usize, EngineError> {
    match count.parse() {
        Ok(count @ 1..=CONNECTIONS_MAX) => Ok(count),
        _ => Err(EngineError::caller(format!("connections is a number from 1 to {CONNECTIONS_MAX}"))),
    }
}

fn no_address(error: AddressError) -> EngineError {
    EngineError::caller(match error {
        AddressError::NotPostgres(reason) => format!("not a Postgres URL: {reason}"),
        AddressError::NoTls => {
            "sslmode=require needs a build of tollway-pipeline with its feature `postgres-tls`".to_owned()
        }
        AddressError::NoHost => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_and_postgres_parameters_are_separated() {
        let options =
            Options::read("postgres://me:secret@db:5433/app?schema=jobs&connections=7&sslmode=disable");
        let options = options.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((options.schema.as_str(), options.connections), ("jobs", 7));
        assert_eq!(options.address.config.get_ports(), [5433]);
    }

    #[test]
    fn wrong_urls_are_refused_and_the_password_is_never_shown() {
        for url in [
            "sqlite:jobs.db",
            "postgres:///app",
            "postgres://me:secret@db:port/app",
            "postgres://me:secret@db/app?schema=a;drop",
            "postgres://me:secret@db/app?connections=0",
            "postgres://me:secret@db/app?colour=secret",
        ] {
            let error = Options::read(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
            assert!(!error.message.contains("secret"), "{error}");
        }
    }
}
