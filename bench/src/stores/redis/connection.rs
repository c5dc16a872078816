//! A connection for rivals that are written by hand, of the client that our store has.

use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

const PATIENCE: Duration = Duration::from_secs(10);

/// Commands of all who share it go out together as they come.
pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}
