//! Bytes to Postgres and back, plain or over TLS, and the news that come between answers.

use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};
use tollway_core::Retry;

use super::error::failed;
use super::place::Place;
#[cfg(feature = "postgres-tls")]
use super::tls;
use crate::records::RecordsError;
use crate::records::changes::Changes;

/// Connects; the task that carries bytes ends with the client, or when it is aborted.
pub(super) async fn connect(
    place: &Place,
    changes: &Changes,
) -> Result<(Client, JoinHandle<()>), RecordsError> {
    let lost = |error| failed(&error, Retry::Safe);
    #[cfg(feature = "postgres-tls")]
    if place.is_encrypted() {
        let tls = tls::connector(place.root_certificates.as_deref())?;
        let (client, connection) = place.config.connect(tls).await.map_err(lost)?;
        return Ok((client, drive(connection, place, changes)));
    }
    let (client, connection) = place.config.connect(NoTls).await.map_err(lost)?;
    Ok((client, drive(connection, place, changes)))
}

fn drive<S, T>(mut connection: Connection<S, T>, place: &Place, changes: &Changes) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (schema, changes) = (place.schema.clone(), changes.clone());
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            match message {
                // All schemas of a database share the channel.
                Ok(AsyncMessage::Notification(news)) if news.payload() == schema => changes.moved(),
                Ok(_) => {}
                // Whoever waits for an answer is told of the same error.
                Err(error) => tracing::debug!(%error, "the connection to the records has ended"),
            }
        }
    })
}
