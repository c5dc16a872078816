//! Tables, created and migrated by the first session that needs them.
//!
//! Every session checks the version when it begins, so that a program never works on tables that it does not know.
//! Several processes may come at once: one migrates under a lock, the others find it done.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};
use tollway_core::{Fault, Fingerprint, Retry, StoreError};

use crate::{BEGIN_MIGRATION, ErrorText, SchemaName, classify};

/// The tables of one part of Tollway, by version.
pub struct Migrations {
    /// The table that holds the version.
    pub version_table: &'static str,
    /// The name of the lock under which a process migrates.
    pub lock: &'static str,
    /// Each migrates the tables from the version of its index to the next. A released one never changes.
    pub steps: &'static [&'static str],
    /// What errors say.
    pub text: ErrorText,
}

impl Migrations {
    /// Makes sure that the tables are of the version that this program knows.
    pub async fn prepare(&self, client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
        match self.version(client).await? {
            Some(version) if self.is_known(version)? => Ok(()),
            _ => self.migrate(client, schema).await,
        }
    }

    /// The version found; none if there are no tables yet.
    async fn version(&self, client: &Client) -> Result<Option<i32>, StoreError> {
        match client.query_opt(&format!("SELECT version FROM {}", self.version_table), &[]).await {
            Ok(row) => row.map(|row| row.try_get(0)).transpose().map_err(|error| self.failed(&error)),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether the version is this program's; an error if it is a later one's.
    fn is_known(&self, version: i32) -> Result<bool, StoreError> {
        let (found, known) = (usize::try_from(version).unwrap_or(usize::MAX), self.steps.len());
        if found > known {
            let message = format!(
                "the tables are of version {version}, made by a newer Tollway; this one knows version {known}: update it, \
                 or choose another schema"
            );
            return Err(StoreError { fault: Fault::Store, retry: Retry::Useless, message });
        }
        Ok(found == known)
    }

    async fn migrate(&self, client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
        let migrated = self.migrate_under_lock(client, schema).await;
        if migrated.is_err() {
            // If this fails, too, the session is dropped, and the server rolls back.
            let _ = client.batch_execute("ROLLBACK").await;
        }
        migrated
    }

    async fn migrate_under_lock(&self, client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
        let table = self.version_table;
        // Other processes wait here for the first one, as long as it takes to make tables.
        self.execute(client, BEGIN_MIGRATION).await?;
        let lock = Fingerprint::new().text(self.lock).text(schema.as_str()).finish().cast_signed();
        let locked = client.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await;
        locked.map_err(|error| self.failed(&error))?;
        self.make_schema(client, schema).await?;
        self.execute(client, &format!("CREATE TABLE IF NOT EXISTS {table} (version integer NOT NULL)"))
            .await?;
        let found = self.version(client).await?.unwrap_or(0);
        if !self.is_known(found)? {
            for step in self.steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
                self.execute(client, step).await?;
            }
            let count = self.steps.len();
            self.execute(client, &format!("DELETE FROM {table}; INSERT INTO {table} VALUES ({count})"))
                .await?;
        }
        self.execute(client, "COMMIT").await
    }

    /// Checks first: `IF NOT EXISTS` needs the right to create schemas even if the schema exists.
    async fn make_schema(&self, client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
        let name = schema.as_str();
        let found = client.query_one("SELECT to_regnamespace($1::text) IS NOT NULL", &[&name]).await;
        let found: bool = found.and_then(|row| row.try_get(0)).map_err(|error| self.failed(&error))?;
        if !found {
            self.execute(client, &format!("CREATE SCHEMA {name}")).await?;
        }
        Ok(())
    }

    async fn execute(&self, client: &Client, statements: &str) -> Result<(), StoreError> {
        client.batch_execute(statements).await.map_err(|error| self.failed(&error))
    }

    /// Nothing was committed.
    fn failed(&self, error: &Error) -> StoreError {
        classify(error, Retry::Safe, &self.text)
    }
}
