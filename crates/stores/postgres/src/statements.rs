//! Every statement of the hot path. Names are found in the session's schema.

/// Which statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreStatement {
    Lock,
    Read,
    Time,
    Write,
    Keep,
    ForgetLines,
    ForgetCalls,
}

/// In the order of [`StoreStatement`].
pub(crate) const ALL: [&str; 7] = [LOCK, READ, TIME, WRITE, KEEP, FORGET_LINES, FORGET_CALLS];

/// Locks in the order of the array.
const LOCK: &str = "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS lock";

const READ: &str = "SELECT key, line FROM lines WHERE key = ANY($1)";

/// The clock, the time up to which accounts were deleted, and calls that were applied before. One row at least.
///
/// Each tag is looked up by itself: a table that was never analysed makes Postgres expect one row for a writer, and then it
/// would read all of a writer's rows for each call. `OFFSET 0` keeps the lookup from being joined in another way.
const TIME: &str = "
    SELECT time.now, time.forgotten, call.tag, call.sequence, call.applied_at, call.found
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, forgotten FROM horizon) AS time
    LEFT JOIN (
        unnest($2::bytea[]) AS wanted (tag) CROSS JOIN LATERAL (
            SELECT calls.tag, calls.sequence, calls.applied_at, calls.found FROM calls
            WHERE calls.writer = $1 AND calls.tag = wanted.tag AND calls.sequence >= $3 OFFSET 0
        ) AS call
    ) ON true";

const WRITE: &str = "
    INSERT INTO lines (key, line, expires) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])
    ON CONFLICT (key) DO UPDATE SET line = excluded.line, expires = excluded.expires";

const KEEP: &str = "
    INSERT INTO calls (writer, tag, sequence, found, applied_at, kept_until)
    SELECT $1, tag, sequence, found, $5, $6
    FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS call (tag, sequence, found)
    ON CONFLICT (writer, tag) DO UPDATE SET sequence = excluded.sequence, found = excluded.found,
        applied_at = excluded.applied_at, kept_until = excluded.kept_until";

/// An account that another transaction is writing is skipped: it is no longer expired. The horizon moves in the same step,
/// so a transaction that misses an account also knows up to when accounts were deleted.
const FORGET_LINES: &str = "
    WITH expired AS MATERIALIZED (
        SELECT key FROM lines WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM lines USING expired WHERE lines.key = expired.key RETURNING lines.expires
    )
    UPDATE horizon SET forgotten = (SELECT max(expires) FROM gone)
    WHERE forgotten < (SELECT max(expires) FROM gone)";

const FORGET_CALLS: &str = "
    WITH expired AS MATERIALIZED (
        SELECT writer, tag FROM calls WHERE kept_until <= $1 ORDER BY kept_until LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM calls USING expired WHERE calls.writer = expired.writer AND calls.tag = expired.tag";
