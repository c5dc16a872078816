//! Opens a store of each kind; `config/store_kind.rs` has the table. Stores across a network are features, because each
//! brings its client with it.

use std::sync::Arc;

use tollway_core::{Fault, Retry, Store, StoreError};

use tollway_memory::{FileStore, WallClock};

use crate::{BuildError, StoreUrl};

/// An opened store.
pub(crate) enum OpenedStore {
    /// The limiter makes it, because it shares the limiter's clock.
    Memory {
        /// The most accounts it holds, if the URL says so.
        accounts: Option<usize>,
    },
    Other(Arc<dyn Store>),
}

pub(crate) fn memory(url: &StoreUrl) -> Result<OpenedStore, BuildError> {
    let accounts = if let StoreUrl::Memory { lines } = url { *lines } else { None };
    Ok(OpenedStore::Memory { accounts })
}

pub(crate) fn file(url: &StoreUrl) -> Result<OpenedStore, BuildError> {
    match url {
        StoreUrl::File(path) => Ok(other(FileStore::open(path, Arc::new(WallClock))?)),
        // The table of store kinds never passes another URL.
        url => Err(unusable(url).into()),
    }
}

fn other(store: impl Store) -> OpenedStore {
    OpenedStore::Other(Arc::new(store))
}

/// The Redis store at this URL. It connects when it is first used.
pub(crate) fn redis(url: &StoreUrl) -> Result<OpenedStore, BuildError> {
    #[cfg(feature = "redis")]
    return Ok(other(tollway_redis::RedisStore::open(&connection_url(url)?)?));
    #[cfg(not(feature = "redis"))]
    Err(unusable(url).into())
}

/// The Postgres store at this URL. It connects when it is first used.
pub(crate) fn postgres(url: &StoreUrl) -> Result<OpenedStore, BuildError> {
    #[cfg(feature = "postgres")]
    return match tollway_postgres::PostgresStore::connect(&connection_url(url)?) {
        Ok(store) => Ok(other(store)),
        Err(error) => Err(unusable(&error).into()),
    };
    // Without the feature no such URL can be made.
    #[cfg(not(feature = "postgres"))]
    Err(unusable(url).into())
}

/// The DynamoDB store at this URL, in the layout that it names. It connects when it is first used.
pub(crate) fn dynamodb(url: &StoreUrl) -> Result<OpenedStore, BuildError> {
    #[cfg(feature = "dynamodb")]
    {
        let options: tollway_dynamodb::DynamoOptions =
            url.expose().parse().map_err(|error| unusable(&error))?;
        if let Some(layout) = options.layout() {
            let store = tollway_dynamodb::minute::MinuteStore::start(&options, layout);
            return Ok(other(store.map_err(|error| unusable(&error))?));
        }
        let store = tollway_dynamodb::DynamoStore::connect(&url.expose());
        Ok(other(store.map_err(|error| unusable(&error))?))
    }
    #[cfg(not(feature = "dynamodb"))]
    Err(unusable(url).into())
}

#[cfg(any(feature = "redis", feature = "postgres"))]
fn connection_url(url: &StoreUrl) -> Result<String, StoreError> {
    url.connection_url().map_err(|why| unusable(&why))
}

fn unusable(cause: &dyn std::fmt::Display) -> StoreError {
    let message = format!("the store cannot be used: {cause}");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}
