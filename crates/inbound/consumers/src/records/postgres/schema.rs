//! The tables, created and migrated by the first process that opens them.
//!
//! They may share a schema with a store's tables; they have their own version.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tollway_core::Retry;
use tollway_postgres_link::BEGIN_MIGRATION;

use super::error::failed;
use crate::records::{RecordsError, RecordsFault};

/// Each migrates the tables from the version of its index to the next. A released migration never changes.
const MIGRATIONS: [&str; 3] =
    [include_str!("migrations/1.sql"), include_str!("migrations/2.sql"), include_str!("migrations/3.sql")];

/// Migrates the tables to the version that this program knows.
pub(super) async fn prepare(client: &Client, schema: &str) -> Result<(), RecordsError> {
    match version(client).await? {
        Some(version) if is_known(version)? => Ok(()),
        _ => migrate(client, schema).await,
    }
}

/// The current version; `None` if there are no tables yet.
async fn version(client: &Client) -> Result<Option<i32>, RecordsError> {
    match client.query_opt("SELECT version FROM consumer_schema_version", &[]).await {
        Ok(row) => row.map(|row| row.try_get(0)).transpose().map_err(|error| failed(&error, Retry::Safe)),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(failed(&error, Retry::Safe)),
    }
}

/// Whether the version is this program's; an error if it is newer.
fn is_known(version: i32) -> Result<bool, RecordsError> {
    let found = usize::try_from(version).unwrap_or(usize::MAX);
    let known = MIGRATIONS.len();
    if found > known {
        let message = format!(
            "the tables of records are of version {version}, made by a newer Tollway; this one knows version {known}: \
             update it, or choose another schema"
        );
        return Err(RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message });
    }
    Ok(found == known)
}

/// Runs in one transaction. If it fails, the caller drops the session, which rolls it back.
async fn migrate(client: &Client, schema: &str) -> Result<(), RecordsError> {
    // Other processes wait here for the first one to create the tables.
    execute(client, BEGIN_MIGRATION).await?;
    let name = format!("tollway consumers {schema}");
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    client.execute(lock, &[&name]).await.map_err(|error| failed(&error, Retry::Safe))?;
    make_schema(client, schema).await?;
    execute(client, "CREATE TABLE IF NOT EXISTS consumer_schema_version (version integer NOT NULL)").await?;
    let found = version(client).await?.unwrap_or(0);
    if !is_known(found)? {
        for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            execute(client, migration).await?;
        }
        let (clear, count) = ("DELETE FROM consumer_schema_version", MIGRATIONS.len());
        execute(client, &format!("{clear}; INSERT INTO consumer_schema_version VALUES ({count})")).await?;
    }
    execute(client, "COMMIT").await
}

/// Checks first: `IF NOT EXISTS` needs the right to create schemas even if the schema exists.
async fn make_schema(client: &Client, schema: &str) -> Result<(), RecordsError> {
    let found = client.query_one("SELECT to_regnamespace($1::text) IS NOT NULL", &[&schema]).await;
    let found: bool = found.and_then(|row| row.try_get(0)).map_err(|error| failed(&error, Retry::Safe))?;
    if !found {
        execute(client, &format!("CREATE SCHEMA {schema}")).await?;
    }
    Ok(())
}

async fn execute(client: &Client, statements: &str) -> Result<(), RecordsError> {
    client.batch_execute(statements).await.map_err(|error| failed(&error, Retry::Safe))
}
