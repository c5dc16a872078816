//! One connection: migrates the tables, prepares the statements, listens for changes.

use futures_util::future::try_join_all;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Notification, Statement};
use tollway_core::Retry;
use tollway_postgres_link::{Connection, LOCK_WAIT_MAX};

use super::error::{TEXT, failed, in_records};
use super::place::Place;
use super::{schema, table};
use crate::records::RecordsError;
use crate::records::changes::Changes;

/// One connection, closed when dropped.
pub(super) struct Session {
    connection: Connection,
    statements: Vec<Statement>,
}

impl Session {
    /// Connects, migrates the tables, and listens: every commit from then on is reported as a change, until the connection's
    /// task ends.
    pub(super) async fn open(
        place: &Place,
        changes: &Changes,
    ) -> Result<(Self, JoinHandle<()>), RecordsError> {
        let (schema, changes) = (place.schema.as_str().to_owned(), changes.clone());
        let notify = move |news: &Notification| {
            // All schemas of a database share the channel.
            if news.payload() == schema {
                changes.moved();
            }
        };
        let opened = Connection::open(&place.address, &TEXT, notify).await;
        let (connection, driver) = opened.map_err(in_records)?;
        let mut session = Self { connection, statements: Vec::new() };
        Connection::ready(session.set_up(place)).await.map_err(in_records)??;
        Ok((session, driver))
    }

    async fn set_up(&mut self, place: &Place) -> Result<(), RecordsError> {
        let client = &self.connection.client;
        let configured = self.connection.configure(&place.schema, LOCK_WAIT_MAX, "").await;
        configured.map_err(|error| failed(&error, Retry::Safe))?;
        schema::prepare(client, place.schema.as_str()).await?;
        let prepared = try_join_all(table::STATEMENTS.iter().map(|sql| client.prepare(sql))).await;
        let prepared = prepared.map_err(|error| failed(&error, Retry::Safe))?;
        let listening = client.batch_execute("LISTEN tollway_consumers").await;
        self.statements = prepared;
        listening.map_err(|error| failed(&error, Retry::Safe))
    }

    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    pub(super) fn statement(&self, index: table::RecordStatement) -> &Statement {
        &self.statements[index as usize]
    }

    /// Runs a statement with a timeout; `silence` says what a timeout or a lost connection means for a retry.
    pub(super) async fn within<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
        silence: Retry,
    ) -> Result<T, RecordsError> {
        let answered = self.connection.within(statement, silence).await.map_err(in_records)?;
        answered.map_err(|error| failed(&error, silence))
    }

    /// Whether the server still responds.
    pub(super) async fn is_alive(&self) -> bool {
        self.within(self.client().simple_query(""), Retry::Safe).await.is_ok()
    }
}
