//! Parses a URL: the Postgres server and the schema.

use std::str::FromStr;

use tollway_core::Retry;
use tollway_postgres_link::{Address, AddressError, SchemaName};

use crate::records::{RecordsError, RecordsFault};

/// The Postgres server and the schema of the tables.
pub(super) struct Place {
    pub(super) address: Address,
    pub(super) schema: SchemaName,
}

impl FromStr for Place {
    type Err = RecordsError;

    fn from_str(url: &str) -> Result<Self, RecordsError> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut root_certificates) = (SchemaName::default(), None);
        let mut theirs = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => schema = SchemaName::new(name).map_err(|reason| wrong(&reason))?,
                Some(("sslrootcert", file)) => root_certificates = Some(file.into()),
                _ => theirs.push(parameter),
            }
        }
        let address = Address::new(place, &theirs, root_certificates).map_err(no_address)?;
        Ok(Self { address, schema })
    }
}

fn no_address(error: AddressError) -> RecordsError {
    match error {
        AddressError::NotPostgres(reason) => {
            wrong(&format!("the URL of records is not one of Postgres: {reason}"))
        }
        AddressError::NoTls => wrong("sslmode=require needs a build with the feature `postgres-tls`"),
        AddressError::NoHost => wrong(&error.to_string()),
    }
}

fn wrong(message: &str) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_separated_from_postgres_parameters() {
        let place: Place = "postgres://me:secret@db:5433/app?schema=bank&sslmode=disable".parse().unwrap();
        assert_eq!((place.schema.as_str(), place.address.config.get_ports()), ("bank", &[5433][..]));
        assert!(!place.address.is_encrypted());
        let plain: Place = "postgres://db/app".parse().unwrap();
        assert_eq!(plain.schema.as_str(), "tollway");
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
