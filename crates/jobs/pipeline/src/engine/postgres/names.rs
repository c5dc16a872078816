//! Two processes that work under one name: each takes the claims of the other for those of an earlier process that died.
//!
//! A process holds a lock of the server for its name, on a connection that does nothing else. The lock ends with the process.

use super::error::Failure;
use super::session::Session;

/// Takes the lock, unless this session has it. Otherwise answers where the session comes from that does.
const LOCK: &str = "
    WITH name AS (SELECT hashtextextended($1, 0) AS key),
        holder AS (
            SELECT pid FROM pg_locks, name
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND classid::bigint = (key >> 32) & 4294967295 AND objid::bigint = key & 4294967295)
    SELECT CASE
        WHEN EXISTS (SELECT FROM holder WHERE pid = pg_backend_pid()) THEN NULL
        WHEN pg_try_advisory_lock((SELECT key FROM name)) THEN NULL
        ELSE coalesce(
            (SELECT 'the process at ' || host(client_addr) FROM holder JOIN pg_stat_activity USING (pid)
             WHERE client_addr IS NOT NULL LIMIT 1),
            'another process')
        END";

/// The other process that works under this name.
pub(super) async fn lock(session: &Session, worker: &str) -> Result<Option<String>, Failure> {
    let name = format!("tollway worker {} {worker}", session.lock_class());
    Ok(session.client().query_one(LOCK, &[&name]).await?.try_get(0)?)
}
