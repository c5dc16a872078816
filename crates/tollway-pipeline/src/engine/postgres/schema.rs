//! The tables, created and migrated by the first session that needs them.
//!
//! Every session checks the version when it begins, so that a program never works on tables that it does not know.
//! Several processes may come at once: one migrates under a lock, the others find it done.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tollway_core::{Fault, Fingerprint, Retry, StoreError};
use tollway_postgres_link::{BEGIN_MIGRATION, SchemaName};

use super::error::before_commit;

/// Each migrates the tables from the version of its index to the next. A released migration never changes.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/1.sql")];

/// Makes sure that the tables are of the version that this program knows.
pub(super) async fn prepare(client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
    match version(client).await? {
        Some(version) if is_known(version)? => Ok(()),
        _ => migrate(client, schema).await,
    }
}

/// The version found; none if there are no tables yet.
async fn version(client: &Client) -> Result<Option<i32>, StoreError> {
    match client.query_opt("SELECT version FROM pipeline_version", &[]).await {
        Ok(row) => row.map(|row| row.try_get(0)).transpose().map_err(|error| before_commit(&error)),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(before_commit(&error)),
    }
}

/// Whether the version is this program's; an error if it is a later one's.
fn is_known(version: i32) -> Result<bool, StoreError> {
    let found = usize::try_from(version).unwrap_or(usize::MAX);
    if found > MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        let message = format!(
            "the tables are of version {version}, made by a newer Tollway; this one knows version {known}: update it, \
             or choose another schema"
        );
        return Err(StoreError { fault: Fault::Store, retry: Retry::Useless, message });
    }
    Ok(found == MIGRATIONS.len())
}

async fn migrate(client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
    let migrated = migrate_under_lock(client, schema).await;
    if migrated.is_err() {
        // If this fails, too, the session is dropped, and the server rolls back.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    migrated
}

async fn migrate_under_lock(client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
    execute(client, BEGIN_MIGRATION).await?;
    let lock = Fingerprint::new().text("tollway pipeline").text(schema.as_str()).finish().cast_signed();
    let locked = client.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await;
    locked.map_err(|error| before_commit(&error))?;
    make_schema(client, schema).await?;
    execute(client, "CREATE TABLE IF NOT EXISTS pipeline_version (version integer NOT NULL)").await?;
    let found = version(client).await?.unwrap_or(0);
    if !is_known(found)? {
        for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            execute(client, migration).await?;
        }
        let count = MIGRATIONS.len();
        let set = format!("DELETE FROM pipeline_version; INSERT INTO pipeline_version VALUES ({count})");
        execute(client, &set).await?;
    }
    execute(client, "COMMIT").await
}

/// Checks first: `IF NOT EXISTS` needs the right to create schemas even if the schema exists.
async fn make_schema(client: &Client, schema: &SchemaName) -> Result<(), StoreError> {
    let name = schema.as_str();
    let found = client.query_one("SELECT to_regnamespace($1::text) IS NOT NULL", &[&name]).await;
    let found: bool = found.and_then(|row| row.try_get(0)).map_err(|error| before_commit(&error))?;
    if !found {
        execute(client, &format!("CREATE SCHEMA {name}")).await?;
    }
    Ok(())
}

async fn execute(client: &Client, statements: &str) -> Result<(), StoreError> {
    client.batch_execute(statements).await.map_err(|error| before_commit(&error))
}
