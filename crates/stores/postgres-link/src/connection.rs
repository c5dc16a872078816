//! One connection: opened within a time, set up so that it cannot block others for long, closed when it is dropped.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, Notification};
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

/// The longest wait for a lock.
pub const LOCK_WAIT_MAX: Duration = Duration::from_millis(1_500);

/// How long a client that stops, or loses its network, can hold its locks: the server ends a session that is idle in a
/// transaction for longer, and undoes what it had begun.
const LOCKS_HELD_MAX: Duration = Duration::from_millis(100);

/// Every transaction is idle for a round trip. A distant client may hold its locks for this many of them, because with less
/// to spare a busy machine would often lose its session.
const ROUND_TRIPS_HELD: u32 = 3;

/// However distant a client is.
const LOCKS_HELD_BY_DISTANT_MAX: Duration = Duration::from_secs(1);

/// Begins the transaction that makes tables. It has many round trips and blocks only sessions that need those tables, so
/// its times are longer than those of other transactions.
pub const BEGIN_MIGRATION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10s'; \
    SET LOCAL idle_in_transaction_session_timeout = '1s'";

/// One connection. Dropped, it is closed at once, and the server undoes what it had begun.
pub struct Connection {
    /// Where statements are sent.
    pub client: Client,
    driver: AbortHandle,
    idled_out: Arc<AtomicBool>,
}

impl Connection {
    /// Connects. The task beside the connection carries its bytes and hands over notifications; it ends with the connection.
    pub async fn open(
        address: &Address,
        text: &ErrorText,
        notify: impl FnMut(&Notification) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let connected = tokio::time::timeout(ACCEPT_WITHIN, connect(address, text, notify)).await;
        connected.unwrap_or_else(|_| Err(timed_out(Retry::Safe)))
    }

    /// Makes the settings of every session, and `more`: no statement runs long, waits long for a lock, or leaves one held.
    pub async fn configure(&self, schema: &SchemaName, lock_wait: Duration, more: &str) -> Result<(), Error> {
        let settings = format!(
            "SET statement_timeout = '2s'; SET lock_timeout = {}; {} SET client_min_messages = 'error'; \
             SET jit = off; SET search_path = {}; {more}",
            lock_wait.min(LOCK_WAIT_MAX).as_millis().max(1),
            locks_held_for(LOCKS_HELD_MAX),
            schema.as_str()
        );
        let mut round_trip = self.round_trip(&settings).await?;
        // A busy machine is slow now and then, a distant server always.
        for _ in 0..3 {
            if round_trip * ROUND_TRIPS_HELD <= LOCKS_HELD_MAX {
                return Ok(());
            }
            round_trip = round_trip.min(self.round_trip("").await?);
        }
        let held = (round_trip * ROUND_TRIPS_HELD).clamp(LOCKS_HELD_MAX, LOCKS_HELD_BY_DISTANT_MAX);
        self.client.batch_execute(&locks_held_for(held)).await
    }

    async fn round_trip(&self, statements: &str) -> Result<Duration, Error> {
        let sent = Instant::now();
        self.client.batch_execute(statements).await?;
        Ok(sent.elapsed())
    }

    /// Whether the server ended the session because it was idle in a transaction for too long: nothing was committed.
    pub fn idled_out(&self) -> bool {
        self.idled_out.load(Ordering::Acquire)
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

fn locks_held_for(time: Duration) -> String {
    format!("SET idle_in_transaction_session_timeout = {};", time.as_millis())
}

async fn connect(
    address: &Address,
    text: &ErrorText,
    notify: impl FnMut(&Notification) + Send + 'static,
) -> Result<(Connection, JoinHandle<()>), StoreError> {
    let failed = |error| classify(&error, Retry::Safe, text);
    let idled_out = Arc::new(AtomicBool::new(false));
    let driven = |client, driver: JoinHandle<()>, idled_out| {
        (Connection { client, driver: driver.abort_handle(), idled_out }, driver)
    };
    #[cfg(feature = "tls")]
    if address.is_encrypted() {
        let tls = tls::connector(address.root_certificates.as_deref(), text)?;
        let (client, connection) = address.config.connect(tls).await.map_err(failed)?;
        let driver = drive(connection, notify, Arc::clone(&idled_out));
        return Ok(driven(client, driver, idled_out));
    }
    let (client, connection) = address.config.connect(NoTls).await.map_err(failed)?;
    let driver = drive(connection, notify, Arc::clone(&idled_out));
    Ok(driven(client, driver, idled_out))
}

fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    mut notify: impl FnMut(&Notification) + Send + 'static,
    idled_out: Arc<AtomicBool>,
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
                    if error.code() == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT) {
                        idled_out.store(true, Ordering::Release);
                    }
                    // A caller that waits for an answer gets the same error. A connection that failed is not polled again.
                    tracing::debug!(%error, "a connection to Postgres has ended");
                    return;
                }
            }
        }
    })
}
