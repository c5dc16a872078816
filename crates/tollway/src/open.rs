//! Opening a store across a network. Each kind is a feature, because each brings its client with it.

use std::sync::Arc;

use tollway_core::{Fault, Retry, Store, StoreError};

use crate::BuildError;
use crate::config::RemoteUrl;

/// The Redis store at this URL. It connects when it is first used.
pub(crate) fn redis(url: &RemoteUrl) -> Result<Arc<dyn Store>, BuildError> {
    #[cfg(feature = "redis")]
    return Ok(Arc::new(tollway_redis::RedisStore::open(url.expose())?));
    #[cfg(not(feature = "redis"))]
    Err(unusable(url).into())
}

/// The Postgres store at this URL. It connects when it is first used.
pub(crate) fn postgres(url: &RemoteUrl) -> Result<Arc<dyn Store>, BuildError> {
    #[cfg(feature = "postgres")]
    return match tollway_postgres::PostgresStore::connect(url.expose()) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(unusable(&error).into()),
    };
    // Without the feature no such URL can be made.
    #[cfg(not(feature = "postgres"))]
    Err(unusable(url).into())
}

/// The DynamoDB store at this URL, in the layout that it names. It connects when it is first used.
pub(crate) fn dynamodb(url: &RemoteUrl) -> Result<Arc<dyn Store>, BuildError> {
    #[cfg(feature = "dynamodb")]
    {
        let options: tollway_dynamodb::DynamoOptions =
            url.expose().parse().map_err(|error| unusable(&error))?;
        if let Some(layout) = options.layout() {
            let store = tollway_dynamodb::minute::MinuteStore::start(&options, layout);
            return Ok(Arc::new(store.map_err(|error| unusable(&error))?));
        }
        let store = tollway_dynamodb::DynamoStore::connect(url.expose());
        Ok(Arc::new(store.map_err(|error| unusable(&error))?))
    }
    #[cfg(not(feature = "dynamodb"))]
    Err(unusable(url).into())
}

#[cfg_attr(feature = "postgres", allow(dead_code, reason = "each feature has its own use of it"))]
fn unusable(cause: &dyn std::fmt::Display) -> StoreError {
    let message = format!("the store cannot be used: {cause}");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}
