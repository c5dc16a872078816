//! A connection for the reimplemented rivals, on the client that Tollway uses.

use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A multiplexed connection: concurrent commands share it.
pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}
