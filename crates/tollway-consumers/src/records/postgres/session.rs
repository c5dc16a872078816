//! One connection: its tables made sure of, its statements prepared, its ears open.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::{Client, Statement};
use tollway_core::Retry;

use super::error::{failed, silent};
use super::place::Place;
use super::{schema, table, transport};
use crate::records::RecordsError;
use crate::records::changes::Changes;

/// How long one statement may take: longer than the server lets it run.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long the server may take to greet: one that is frozen takes connections and says nothing.
const GREET_WITHIN: Duration = Duration::from_secs(5);

/// How long setting a session up may take, with making the tables.
const READY_WITHIN: Duration = Duration::from_secs(15);

const SETUP: &str = "
    SET statement_timeout = '2s';
    SET lock_timeout = '1500ms';
    SET client_min_messages = 'error';
    SET jit = off;";

/// One connection. Dropped, it is closed at once.
pub(super) struct Session {
    client: Client,
    statements: Vec<Statement>,
    driver: AbortHandle,
}

impl Session {
    /// Connects, makes sure that the tables are there, and listens: what is committed from then on moves the changes,
    /// until the task beside the session ends.
    pub(super) async fn open(
        place: &Place,
        changes: &Changes,
    ) -> Result<(Self, JoinHandle<()>), RecordsError> {
        let greeted = tokio::time::timeout(GREET_WITHIN, transport::connect(place, changes)).await;
        let (client, driver) = greeted.unwrap_or_else(|_| Err(silent(Retry::Safe)))?;
        let mut session = Self { client, statements: Vec::new(), driver: driver.abort_handle() };
        let ready = tokio::time::timeout(READY_WITHIN, session.set_up(place)).await;
        ready.unwrap_or_else(|_| Err(silent(Retry::Safe)))?;
        Ok((session, driver))
    }

    async fn set_up(&mut self, place: &Place) -> Result<(), RecordsError> {
        let setup = format!("{SETUP} SET search_path = {}", place.schema);
        self.client.batch_execute(&setup).await.map_err(|error| failed(&error, Retry::Safe))?;
        schema::prepare(&self.client, &place.schema).await?;
        let prepared = try_join_all(table::STATEMENTS.iter().map(|sql| self.client.prepare(sql))).await;
        self.statements = prepared.map_err(|error| failed(&error, Retry::Safe))?;
        let listening = self.client.batch_execute("LISTEN tollway_consumers").await;
        listening.map_err(|error| failed(&error, Retry::Safe))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn statement(&self, index: table::Index) -> &Statement {
        &self.statements[index as usize]
    }

    /// Waits for a statement; what silence and a lost connection mean depends on what was sent.
    pub(super) async fn within<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
        silence: Retry,
    ) -> Result<T, RecordsError> {
        match tokio::time::timeout(ANSWER_WITHIN, statement).await {
            Ok(answered) => answered.map_err(|error| failed(&error, silence)),
            Err(_) => Err(silent(silence)),
        }
    }

    /// Whether the server still answers.
    pub(super) async fn is_alive(&self) -> bool {
        self.within(self.client.simple_query(""), Retry::Safe).await.is_ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
