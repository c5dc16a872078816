//! Reading settings while a limiter runs: the same statement counts the limiters that follow them.
//!
//! A limiter is a row of `calls`, under a writer that no process can be: an earlier version deletes it when it has expired,
//! like any other, and needs no new table.

use std::num::NonZeroU32;

use tokio_postgres::Row;
use tollway_core::{FollowedSettings, StoreError};

use crate::error::before_commit;
use crate::session::Session;
use crate::settings_table::setting;

/// The writer of limiters. A process draws 16 bytes.
const LIMITERS: &[u8] = b"limiters";

/// Reads settings, and counts this limiter and the others of the last minute. One row at least.
const LOOK: &str = r#"
    SELECT policy, "limit", amount, burst, set_at, 1 + (
        SELECT count(*) FROM calls WHERE writer = $1 AND tag <> $2 AND applied_at > time.now - 60000000
    ) FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS time
    LEFT JOIN settings ON true ORDER BY policy, "limit""#;

/// Registers the limiter, at most every ten seconds. Rows end at full minutes, like all that expires.
const REGISTER: &str = "
    WITH registered AS (
        INSERT INTO calls (writer, tag, sequence, applied_at, found, kept_until)
        SELECT $1, $2, 1, now, '', (now / 60000000 + 2) * 60000000
        FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS time
        ON CONFLICT (writer, tag) DO UPDATE SET applied_at = excluded.applied_at, kept_until = excluded.kept_until
        WHERE calls.applied_at <= excluded.applied_at - 10000000
    )";

/// The settings, and how many limiters follow them.
pub(crate) async fn read(
    session: &Session,
    name: &[u8],
    registers: bool,
) -> Result<FollowedSettings, StoreError> {
    let look = async || session.client().query(LOOK, &[&LIMITERS, &name]).await;
    let rows = if registers {
        match session.client().query(&format!("{REGISTER}{LOOK}"), &[&LIMITERS, &name]).await {
            // A database that refuses to be written still says what is set.
            Err(error) if error.as_db_error().is_some() => look().await,
            rows => rows,
        }
    } else {
        look().await
    };
    let rows = rows.map_err(|error| before_commit(&error))?;
    let set = rows.iter().filter(|row| is_set(row));
    Ok(FollowedSettings { settings: set.map(setting).collect::<Result<_, _>>()?, limiters: limiters(&rows) })
}

/// False for the row that stands for no setting at all.
fn is_set(row: &Row) -> bool {
    row.try_get::<_, Option<&str>>(0).is_ok_and(|policy| policy.is_some())
}

fn limiters(rows: &[Row]) -> Option<NonZeroU32> {
    let counted: i64 = rows.first()?.try_get(5).ok()?;
    NonZeroU32::new(u32::try_from(counted).unwrap_or(u32::MAX))
}
