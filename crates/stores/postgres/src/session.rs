//! One connection: set up so that it cannot block other sessions for long, with its statements prepared.

use std::future::Future;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement};
use tollway_core::{Retry, StoreError};
use tollway_postgres_link::{Connection, PoolSession, idled_out};

use crate::error::{TEXT, before_commit};
use crate::options::{Crash, PostgresOptions};
use crate::{schema, statements};

/// Tables are reached by their indexes, also while they are so small that Postgres would rather read them whole: a plan
/// made then would be kept.
const SETUP: &str = "SET enable_seqscan = off;";

/// One connection. Dropped, it is closed at once, and what it had begun is undone by the server.
pub(crate) struct Session {
    connection: Connection,
    statements: Vec<Statement>,
}

impl Session {
    async fn set_up(&mut self, options: &PostgresOptions) -> Result<(), StoreError> {
        let durable = match options.crash {
            // Stronger guarantees that the server was given stay.
            Crash::Keeps => {
                "SELECT set_config('synchronous_commit', 'on', false) \
                 WHERE current_setting('synchronous_commit') = 'off'"
            }
            Crash::MayForget => "SET synchronous_commit = off",
        };
        let more = format!("{SETUP} {durable}");
        let configured = self.connection.configure(&options.schema, options.lock_wait(), &more).await;
        configured.map_err(|error| before_commit(&error))?;
        schema::TABLES.prepare(self.client(), &options.schema).await?;
        let prepared = try_join_all(statements::ALL.iter().map(|sql| self.client().prepare(sql))).await;
        self.statements = prepared.map_err(|error| before_commit(&error))?;
        Ok(())
    }

    /// Where statements are sent.
    pub(crate) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// The prepared form of one of [`statements::ALL`].
    pub(crate) fn statement(&self, index: statements::StoreStatement) -> &Statement {
        &self.statements[index as usize]
    }

    /// Waits for a round trip; what silence means depends on what was sent.
    pub(crate) async fn within<T>(
        &self,
        round_trip: impl Future<Output = Result<T, StoreError>>,
        silence: Retry,
    ) -> Result<T, StoreError> {
        let answered = self.connection.within(round_trip, silence).await?;
        // Whatever was sent came too late, also a COMMIT.
        answered.map_err(|error| if self.connection.idled_out() { idled_out() } else { error })
    }

    /// Ends a transaction that has changed nothing, without waiting: what is sent next comes after it anyway.
    pub(crate) fn rollback_without_waiting(&self) {
        let _ = self.client().batch_execute("ROLLBACK").now_or_never();
    }
}

impl PoolSession for Session {
    type Options = PostgresOptions;

    /// Connects, and makes sure that the tables are there.
    async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let (connection, _) = Connection::open(&options.address, &TEXT, |_| {}).await?;
        let mut session = Self { connection, statements: Vec::new() };
        Connection::ready(session.set_up(options)).await??;
        Ok(session)
    }

    fn is_closed(&self) -> bool {
        self.client().is_closed()
    }

    async fn recover(&self) -> bool {
        let rollback = async { self.client().batch_execute("ROLLBACK").await.map_err(|e| before_commit(&e)) };
        self.within(rollback, Retry::Safe).await.is_ok()
    }
}
