//! Bytes to Postgres and back: plain, or over TLS where that is built in and asked for.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Connection, NoTls};
use tollway_core::StoreError;

use crate::error::before_commit;
use crate::options::PostgresOptions;
#[cfg(feature = "tls")]
use crate::tls;

/// Connects; the task that carries bytes ends with the client, or when it is aborted.
pub(crate) async fn connect(options: &PostgresOptions) -> Result<(Client, JoinHandle<()>), StoreError> {
    #[cfg(feature = "tls")]
    if options.is_encrypted() {
        let tls = tls::connector(options.root_certificates.as_deref())?;
        let (client, connection) =
            options.config.connect(tls).await.map_err(|error| before_commit(&error))?;
        return Ok((client, drive(connection)));
    }
    let (client, connection) = options.config.connect(NoTls).await.map_err(|error| before_commit(&error))?;
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
