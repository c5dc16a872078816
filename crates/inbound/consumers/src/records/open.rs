//! Opens records by URL.

use std::sync::Arc;

use tollway_core::Retry;

#[cfg(feature = "postgres")]
use super::PostgresRecords;
use super::{Records, RecordsError, RecordsFault, SqliteRecords};

/// Opens the records at a URL: `sqlite:PATH`, `sqlite::memory:` or `postgres://...`.
pub fn open_records(url: &str) -> Result<Arc<dyn Records>, RecordsError> {
    if url.starts_with("sqlite:") {
        return Ok(Arc::new(SqliteRecords::open(url)?));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        #[cfg(feature = "postgres")]
        return Ok(Arc::new(PostgresRecords::connect(url)?));
        #[cfg(not(feature = "postgres"))]
        return Err(wrong("records in Postgres need a build with the feature `postgres`"));
    }
    // Do not repeat the URL: it may hold a password.
    Err(wrong("the URL of records begins with sqlite: or postgres://, such as sqlite:tollway.db"))
}

fn wrong(message: &str) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_refused_and_not_repeated() {
        for url in ["", "tollway.db", "mysql://me:secret@db", "sqlite:", "redis://:secret@db"] {
            let error = open_records(url).err().unwrap();
            assert_eq!((error.fault, error.retry), (RecordsFault::Storage, Retry::Useless), "{url}");
            assert!(error.message.contains("sqlite:") && !error.message.contains("secret"), "{error}");
        }
        assert!(open_records("sqlite::memory:").is_ok());
    }
}
