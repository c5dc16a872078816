//! Bytes to Postgres and back: plain.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Connection, NoTls};
use tollway_core::StoreError;

use crate::error::before_commit;

/// Connects; the task that carries bytes ends with the client, or when it is aborted.
pub(crate) async fn connect(config: &Config) -> Result<(Client, JoinHandle<()>), StoreError> {
    let (client, connection) = config.connect(NoTls).await.map_err(|error| before_commit(&error))?;
    Ok((client, drive(connection)))
}

fn drive<S, T>(connection: Connection<S, T>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Whoever waits for an answer is told of the same error.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to Postgres has ended");
        }
    })
}
