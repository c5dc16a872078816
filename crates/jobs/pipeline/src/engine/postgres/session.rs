//! One connection with its statements prepared, and what every transaction needs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{try_join, try_join_all};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use tollway_core::{Fingerprint, Name, StoreError, Timestamp};
use tollway_postgres_link::{Connection, LOCK_WAIT_MAX, PoolSession, idled_out};

use super::error::{Failure, TEXT, at_commit, before_commit};
use super::options::Options;
use super::schema;
use super::statements::{ALL, Index};
use crate::EngineError;
use crate::bounds::STAGES_MAX;
use crate::engine::stored::micros;

/// Parameters of a statement.
pub(super) type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Jobs are reached by their indexes, row by row, also while tables are so small that Postgres would rather read them whole:
/// a plan made then would be kept. A whole batch may take longer than a decision, and also longer to put together: others
/// skip its jobs meanwhile.
const WORK: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET random_page_cost = 0; SET plan_cache_mode = force_generic_plan; SET statement_timeout = '8s';
    SET idle_in_transaction_session_timeout = '3s'";

/// For operators' lists.
const READ: &str = "SET default_transaction_read_only = on; SET statement_timeout = '60s'";

/// What was answered is on disk. Stronger guarantees that the server was given stay.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// Begins a transaction whose answer says that it is on disk.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Begins a transaction that a crash of the server may undo: a renewal, or that a job is due. Not for claims: workers on
/// other machines outlive the server, and a claim number must not be given twice.
pub(super) const BEGIN_FORGETTABLE: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off";

/// How a session is set up.
pub(super) struct SessionOptions {
    pub(super) options: Options,
    /// For operators' lists: no statements are prepared, and nothing can be written.
    pub(super) read_only: bool,
}

/// One connection. Dropped, it is closed at once, and the server undoes what it had begun.
pub(super) struct Session {
    connection: Connection,
    statements: Vec<Statement>,
    /// The locks of this schema.
    lock_class: i32,
    /// Ids of stages. They never change, and are read again by a new session.
    stages: Mutex<HashMap<String, i32>>,
}

impl Session {
    /// Where statements are sent.
    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// What the locks of this schema have in common.
    pub(super) fn lock_class(&self) -> i32 {
        self.lock_class
    }

    /// The rows of a prepared statement.
    pub(super) async fn query(&self, index: Index, with: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        Ok(self.try_query(index, with).await?)
    }

    /// The same, with the error of Postgres.
    pub(super) async fn try_query(&self, index: Index, with: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.client().query(&self.statements[index as usize], with).await
    }

    /// The first number of the first row of a prepared statement.
    pub(super) async fn number(&self, index: Index, with: Parameters<'_>) -> Result<i64, Failure> {
        match self.query(index, with).await?.first() {
            Some(row) => Ok(row.try_get(0)?),
            None => Ok(0),
        }
    }

    /// What a failure means if the server ended the session because it was idle in a transaction for too long: nothing was
    /// committed.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        if self.connection.idled_out() { Failure::Postgres(idled_out()) } else { failure }
    }

    pub(super) async fn begin(&self, begin: &str) -> Result<(), Failure> {
        Ok(self.client().batch_execute(begin).await?)
    }

    pub(super) async fn commit(&self) -> Result<(), Failure> {
        self.client().batch_execute("COMMIT").await.map_err(|error| at_commit(&error))
    }

    /// Takes the locks of all that moves jobs of groups, before it locks any row: see `statements.rs`. Groups are those
    /// named, and those of the jobs.
    pub(super) async fn enter(&self, groups: &[&str], jobs: &[i64]) -> Result<(), Failure> {
        let class = self.lock_class;
        try_join(
            self.query(Index::Gate, &[&class]),
            self.query(Index::LockGroups, &[&class, &groups, &jobs]),
        )
        .await?;
        Ok(())
    }

    /// Waits until no transaction moves jobs of groups, and keeps them waiting.
    pub(super) async fn close_gate(&self) -> Result<(), Failure> {
        self.client().execute("SELECT pg_advisory_xact_lock($1, -1)", &[&self.lock_class]).await?;
        Ok(())
    }

    /// Makes held jobs ready whose group has left the stages before. How many.
    pub(super) async fn release_groups(&self, groups: &[&str], now: &[i64]) -> Result<i64, Failure> {
        match groups.is_empty() {
            true => Ok(0),
            false => self.number(Index::ReleaseGroups, &[&groups, &now]).await,
        }
    }

    /// The id of a stage, if any job has entered it, or it was set.
    pub(super) async fn stage(&self, name: &Name) -> Result<Option<i32>, Failure> {
        if let Some(id) = self.known_stage(name) {
            return Ok(Some(id));
        }
        for row in self.client().query("SELECT name, id FROM stages", &[]).await? {
            let mut known = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(self.known_stage(name))
    }

    /// The id of a stage, if this session has read it.
    pub(super) fn known_stage(&self, name: &Name) -> Option<i32> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).get(name.as_str()).copied()
    }

    /// The id of a stage, which is made if it is new, in a transaction of its own.
    pub(super) async fn stage_id(&self, name: &Name) -> Result<i32, Failure> {
        if let Some(id) = self.stage(name).await? {
            return Ok(id);
        }
        self.begin("BEGIN; LOCK TABLE stages IN SHARE ROW EXCLUSIVE MODE").await?;
        let insert = "INSERT INTO stages (name) SELECT $1 WHERE (SELECT count(*) FROM stages) < $2 ON CONFLICT DO NOTHING";
        let max = i64::try_from(STAGES_MAX).unwrap_or(i64::MAX);
        self.client().execute(insert, &[&name.as_str(), &max]).await?;
        self.commit().await?;
        self.stage(name).await?.ok_or_else(|| {
            let message = format!("stage {} would be one more than the {STAGES_MAX} allowed", name.as_str());
            EngineError::caller(message).into()
        })
    }

    async fn set_up(&mut self, options: &SessionOptions) -> Result<(), StoreError> {
        let schema = &options.options.schema;
        let configured = self.connection.configure(schema, LOCK_WAIT_MAX, DURABLE).await;
        configured.map_err(|error| before_commit(&error))?;
        schema::TABLES.prepare(self.client(), schema).await?;
        let settings = if options.read_only { READ } else { WORK };
        self.client().batch_execute(settings).await.map_err(|error| before_commit(&error))?;
        if options.read_only {
            return Ok(());
        }
        let prepared = try_join_all(ALL.iter().map(|sql| self.client().prepare(sql))).await;
        self.statements = prepared.map_err(|error| before_commit(&error))?;
        Ok(())
    }
}

impl PoolSession for Session {
    type Options = SessionOptions;

    async fn open(options: &SessionOptions) -> Result<Self, StoreError> {
        let (connection, _) = Connection::open(&options.options.address, &TEXT, |_| {}).await?;
        let schema = options.options.schema.as_str();
        let lock = Fingerprint::new().text("tollway pipeline").text(schema).finish().to_le_bytes();
        let lock_class = i32::from_le_bytes([lock[0], lock[1], lock[2], lock[3]]);
        let mut session = Self { connection, statements: Vec::new(), lock_class, stages: Mutex::default() };
        Connection::ready(session.set_up(options)).await??;
        Ok(session)
    }

    fn is_closed(&self) -> bool {
        self.client().is_closed()
    }

    async fn recover(&self) -> bool {
        let rollback =
            self.connection.within(self.client().batch_execute("ROLLBACK"), tollway_core::Retry::Safe);
        matches!(rollback.await, Ok(Ok(())))
    }
}

/// Each group once, with the latest time at which it moved, in the form of [`Session::release_groups`].
pub(super) fn moved<'g>(groups: impl Iterator<Item = (&'g str, Timestamp)>) -> (Vec<&'g str>, Vec<i64>) {
    let mut latest: HashMap<&str, Timestamp> = HashMap::new();
    for (group, now) in groups {
        let last = latest.entry(group).or_insert(now);
        *last = now.max(*last);
    }
    latest.into_iter().map(|(group, now)| (group, micros(now))).unzip()
}
