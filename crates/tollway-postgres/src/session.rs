//! One connection: set up so that it can hold nobody up, with its statements prepared.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Statement};
use tollway_core::{Retry, StoreError};

use crate::error::{before_commit, silent};
use crate::options::{Crash, PostgresOptions};
use crate::{schema, statements, transport};

/// How long connecting may take, with each host.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// How long one round trip may take: longer than the server lets a statement run.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long the server may take to greet: one that is frozen takes connections and says nothing.
const GREET_WITHIN: Duration = Duration::from_secs(5);

/// How long setting a session up may take, with making the tables.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// A client that stops in the middle of a transaction loses its locks after a second. Whoever waits for them waits a
/// little longer than that. Tables are reached by their indexes, also while they are so small that Postgres would
/// rather read them whole: a plan made then would be kept.
const SETUP: &str = "
    SET idle_in_transaction_session_timeout = '1s';
    SET lock_timeout = '1500ms';
    SET statement_timeout = '2s';
    SET client_min_messages = 'error';
    SET enable_seqscan = off;
    SET jit = off;";

/// One connection. Dropped, it is closed at once, and what it had begun is undone by the server.
pub(crate) struct Session {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    statements: Vec<Statement>,
}

impl Session {
    /// Connects, and makes sure that the tables are there.
    pub(crate) async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let greeted = tokio::time::timeout(GREET_WITHIN, transport::connect(options)).await;
        let (client, driver) = greeted.unwrap_or_else(|_| Err(silent(Retry::Safe)))?;
        let mut session = Self { client, driver, statements: Vec::new() };
        let ready = tokio::time::timeout(READY_WITHIN, session.set_up(options)).await;
        ready.unwrap_or_else(|_| Err(silent(Retry::Safe)))?;
        Ok(session)
    }

    async fn set_up(&mut self, options: &PostgresOptions) -> Result<(), StoreError> {
        let durable = match options.crash {
            // Stronger guarantees that the server was given stay.
            Crash::Keeps => {
                "SELECT set_config('synchronous_commit', 'on', false) \
                 WHERE current_setting('synchronous_commit') = 'off'"
            }
            Crash::MayForget => "SET synchronous_commit = off",
        };
        let schema = options.schema.as_str();
        let setup = format!("{SETUP} SET search_path = {schema}; {durable}");
        self.client.batch_execute(&setup).await.map_err(|error| before_commit(&error))?;
        schema::prepare(&self.client, &options.schema).await?;
        let prepared = try_join_all(statements::ALL.iter().map(|sql| self.client.prepare(sql))).await;
        self.statements = prepared.map_err(|error| before_commit(&error))?;
        Ok(())
    }

    /// The prepared form of one of [`statements::ALL`].
    pub(crate) fn statement(&self, index: statements::Index) -> &Statement {
        &self.statements[index as usize]
    }

    /// Waits for a round trip; what silence means depends on what was sent.
    pub(crate) async fn within<T>(
        &self,
        round_trip: impl Future<Output = Result<T, StoreError>>,
        silence: Retry,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(ANSWER_WITHIN, round_trip).await.unwrap_or_else(|_| Err(silent(silence)))
    }

    /// Ends a transaction that has changed nothing, without waiting: what is sent next comes after it anyway.
    pub(crate) fn let_go(&self) {
        let _ = self.client.batch_execute("ROLLBACK").now_or_never();
    }

    /// Ends a transaction that was refused; says whether the session can go on.
    pub(crate) async fn recover(&self) -> bool {
        let rollback = async { self.client.batch_execute("ROLLBACK").await.map_err(|e| before_commit(&e)) };
        self.within(rollback, Retry::Safe).await.is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
