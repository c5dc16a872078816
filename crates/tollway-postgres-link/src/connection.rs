//! One connection: opened within a time, closed when it is dropped.

use std::future::Future;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification};
use tollway_core::{Retry, StoreError};

#[cfg(feature = "tls")]
use crate::tls;
use crate::{Address, ErrorText, SchemaName, classify, timed_out};

/// How long one round trip may take: longer than the server lets a statement run.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long the server may take to accept the client: a frozen one accepts the connection and sends nothing.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);

/// How long setting a session up may take, with making the tables.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// The settings of every session: no statement may run long, or wait long for a lock.
pub fn session_settings(schema: &SchemaName) -> String {
    format!(
        "SET statement_timeout = '2s'; SET lock_timeout = '1500ms'; SET client_min_messages = 'error'; \
         SET jit = off; SET search_path = {};",
        schema.as_str()
    )
}

/// One connection. Dropped, it is closed at once, and the server undoes what it had begun.
pub struct Connection {
    /// Where statements are sent.
    pub client: Client,
    driver: AbortHandle,
}

impl Connection {
    /// Connects. The task beside the connection carries its bytes and hands over notifications; it ends with the connection.
    pub async fn open(
        address: &Address,
        text: &ErrorText,
        notify: impl FnMut(&Notification) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let connected = tokio::time::timeout(ACCEPT_WITHIN, connect(address, text, notify)).await;
        let (client, driver) = connected.unwrap_or_else(|_| Err(timed_out(Retry::Safe)))?;
        Ok((Self { client, driver: driver.abort_handle() }, driver))
    }

    /// Waits for a round trip; `silence` is what a timeout means for what was sent.
    pub async fn within<T>(
        &self,
        round_trip: impl Future<Output = T>,
        silence: Retry,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(ANSWER_WITHIN, round_trip).await.map_err(|_| timed_out(silence))
    }

    /// Waits until a session is set up.
    pub async fn ready<T>(set_up: impl Future<Output = T>) -> Result<T, StoreError> {
        tokio::time::timeout(READY_WITHIN, set_up).await.map_err(|_| timed_out(Retry::Safe))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn connect(
    address: &Address,
    text: &ErrorText,
    notify: impl FnMut(&Notification) + Send + 'static,
) -> Result<(Client, JoinHandle<()>), StoreError> {
    let failed = |error| classify(&error, Retry::Safe, text);
    #[cfg(feature = "tls")]
    if address.is_encrypted() {
        let tls = tls::connector(address.root_certificates.as_deref(), text)?;
        let (client, connection) = address.config.connect(tls).await.map_err(failed)?;
        return Ok((client, drive(connection, notify)));
    }
    let (client, connection) = address.config.connect(NoTls).await.map_err(failed)?;
    Ok((client, drive(connection, notify)))
}

fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    mut notify: impl FnMut(&Notification) + Send + 'static,
) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => notify(&notification),
                Ok(_) => {}
                Err(error) => {
                    // A caller that waits for an answer gets the same error. A connection that failed is not polled again.
                    tracing::debug!(%error, "a connection to Postgres has ended");
                    return;
                }
            }
        }
    })
}
