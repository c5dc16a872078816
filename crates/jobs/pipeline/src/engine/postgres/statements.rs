//! Every statement of the workers' path. Each one takes a whole batch. Names are found in the session's schema.
//!
//! Rows are locked in the order of their ids, and keys are inserted in their order, so that batches of two sessions wait for
//! each other at most, and do not deadlock.
//!
//! A plan may be made while the tables are empty and kept while they grow. So what is found for each row of a batch is a
//! `LATERAL` with `OFFSET 0`, which can only be a lookup, and never a scan of the table with the batch inside.

/// Which statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Index {
    Gate,
    LockGroups,
    Insert,
    InsertAll,
    Due,
    Claim,
    ClaimOfCost,
    ClaimNext,
    Fence,
    End,
    Trim,
    Repeated,
    Count,
    ReleaseGroups,
    Renew,
    Release,
    Peek,
    Existing,
    ForgetCancelled,
}

/// In the order of [`Index`].
pub(super) const ALL: [&str; 19] = [
    GATE,
    LOCK_GROUPS,
    INSERT,
    INSERT_ALL,
    DUE,
    CLAIM,
    CLAIM_OF_COST,
    CLAIM_NEXT,
    FENCE,
    END,
    TRIM,
    REPEATED,
    COUNT,
    RELEASE_GROUPS,
    RENEW,
    RELEASE,
    PEEK,
    EXISTING,
    FORGET_CANCELLED,
];

/// Adds the rows of `changes` to the counters, in the shard of this session.
macro_rules! counted {
    () => {
        "counted AS (
            INSERT INTO counters (stage, kind, shard, n)
            SELECT stage, kind, pg_backend_pid() % 64, sum(delta)::bigint FROM changes
            GROUP BY stage, kind HAVING sum(delta) <> 0 ORDER BY stage, kind
            ON CONFLICT (stage, kind, shard) DO UPDATE SET n = counters.n + excluded.n
        )"
    };
}
pub(super) use counted;

/// Shared by all that moves jobs between stages; exclusive while it is changed which stages wait for groups.
const GATE: &str = "SELECT pg_advisory_xact_lock_shared($1, -1)";

/// One session at a time looks whether the last job of a group has left, if any stage waits for groups. Groups share 1,024
/// locks, since a server has room for some thousand.
const LOCK_GROUPS: &str = r#"
    SELECT pg_advisory_xact_lock($1, bucket) FROM (
        SELECT DISTINCT hashtext("group") & 1023 AS bucket FROM (
            SELECT unnest($2::text[]) AS "group" UNION ALL SELECT "group" FROM jobs WHERE id = ANY ($3::bigint[])
        ) AS groups
        WHERE "group" IS NOT NULL AND EXISTS (SELECT FROM stages WHERE after <> '{}') ORDER BY bucket
    ) AS buckets"#;

/// Inserts jobs. Those with a group are held in a stage that waits for groups; see RELEASE_GROUPS.
macro_rules! insert {
    ($on_conflict:literal) => {
        concat!(
            r#"WITH given AS MATERIALIZED (
                SELECT nextval('job_ids') AS id, g.*
                FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::bigint[],
                            $8::bigint[]) WITH ORDINALITY AS g (stage, key, "group", data, priority, cost, due_at, now, place)
            ), inserted AS (
                INSERT INTO jobs (id, stage, state, priority, due_at, created_at, changed_at, cost, key, "group", data)
                SELECT id, stage,
                       CASE WHEN "group" IS NOT NULL AND stage = ANY (ARRAY (SELECT id FROM stages WHERE after <> '{}')) THEN 2
                            WHEN due_at > now THEN 1 ELSE 0 END,
                       priority, due_at, now, now, cost, key, "group", data
                FROM given ORDER BY stage, key COLLATE "C", place "#,
            $on_conflict,
            r#" RETURNING id, stage, state, key
            ), changes (stage, kind, delta) AS (
                SELECT stage, state, count(*) FROM inserted GROUP BY stage, state
                UNION ALL SELECT stage, 7::smallint, count(*) FROM inserted GROUP BY stage
            ), "#,
            counted!(),
            "SELECT id, stage, key FROM inserted"
        )
    };
}

/// Those whose keys are new.
const INSERT: &str = insert!("ON CONFLICT (stage, key) DO NOTHING");
/// All of them, or an error if a key is not new.
const INSERT_ALL: &str = insert!("");

/// The jobs with these keys, and whether an operator cancelled them.
const EXISTING: &str = "
    SELECT jobs.id, jobs.stage, jobs.key,
           jobs.state = 6 AND NOT starts_with(jobs.error, $3) AND NOT starts_with(jobs.error, $4)
    FROM unnest($1::integer[], $2::text[]) AS g (stage, key)
    CROSS JOIN LATERAL (
        SELECT id, stage, key, state, error FROM jobs WHERE jobs.stage = g.stage AND jobs.key = g.key OFFSET 0
    ) AS jobs";

/// Forgets cancelled jobs with these keys, so that they are new again. Those that moved to another engine stay.
const FORGET_CANCELLED: &str = concat!(
    "WITH old AS MATERIALIZED (
        SELECT jobs.id, g.stage FROM unnest($1::integer[], $2::text[]) AS g (stage, key)
        CROSS JOIN LATERAL (
            SELECT id FROM jobs WHERE jobs.stage = g.stage AND jobs.key = g.key AND jobs.state = 6
                AND NOT starts_with(jobs.error, $3) AND NOT starts_with(jobs.error, $4)
            OFFSET 0 FOR UPDATE
        ) AS jobs
    ), gone AS (
        DELETE FROM jobs WHERE id = ANY (ARRAY (SELECT id FROM old))
    ), attempted AS (
        DELETE FROM evidence WHERE job = ANY (ARRAY (SELECT id FROM old))
    ), changes (stage, kind, delta) AS (
        SELECT stage, 6::smallint, -1 FROM old
    ), ",
    counted!(),
    "SELECT count(*) FROM old"
);

/// [`JobCall::Due`](crate::job::transition::JobCall::Due): delayed jobs, and running ones whose claim expired.
/// `$3`: also in a paused stage.
const DUE: &str = concat!(
    "WITH due AS MATERIALIZED (
        SELECT id, state FROM jobs WHERE stage = $1 AND state IN (1, 3) AND due_at <= $2
            AND ($3 OR (SELECT NOT paused FROM stages WHERE id = $1))
        ORDER BY due_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE jobs SET state = 0 WHERE id = ANY (ARRAY (SELECT id FROM due))
    ), changes (stage, kind, delta) AS (
        SELECT $1::integer, state, -count(*) FROM due GROUP BY state
        UNION ALL SELECT $1::integer, 0::smallint, count(*) FROM due
    ), ",
    counted!(),
    "SELECT count(*) FROM due"
);

/// [`JobCall::Claim`](crate::job::transition::JobCall::Claim) of the picked jobs, one for each worker in the list `$2` at its time
/// in `$4`. The new evidence is not visible to the statement that trims it, hence 19.
macro_rules! claim {
    ($picked:expr, expires at $expires_at:literal) => {
        concat!(
            "WITH picked AS MATERIALIZED (",
            $picked,
            "), placed AS MATERIALIZED (
                SELECT *, (row_number() OVER (ORDER BY rank, priority DESC, id))::integer AS place FROM picked
            ), taken AS (
                UPDATE jobs
                SET state = 3, open = true, claim_number = placed.claim_number + 1,
                    crashes = crashes + placed.open::integer,
                    error = CASE WHEN placed.open THEN $5 ELSE error END,
                    worker = ($2::text[])[placed.place], due_at = ",
            $expires_at,
            ",
                    changed_at = ($4::bigint[])[placed.place]
                FROM placed WHERE jobs.id = placed.id
                RETURNING jobs.id, key, \"group\", data, jobs.priority, cost, state, due_at, jobs.claim_number, jobs.worker,
                          failures, crashes, rate_limited, error, created_at, jobs.changed_at, jobs.stage, placed.place
            ), crashed AS (
                INSERT INTO evidence (job, claim_number, worker, started_at, ended_at, cause, error, detail)
                SELECT id, claim_number, worker, changed_at, ($4::bigint[])[place], 'crash', $5, '' FROM placed WHERE open
                ON CONFLICT (job, claim_number) DO NOTHING
            ), trimmed AS (
                DELETE FROM evidence USING (
                    SELECT job, evidence.claim_number,
                           row_number() OVER (PARTITION BY job ORDER BY cause = 'rate_limited', evidence.claim_number DESC)
                    FROM placed JOIN evidence ON job = id WHERE open
                ) AS old (job, claim_number, place)
                WHERE evidence.job = old.job AND evidence.claim_number = old.claim_number AND old.place > 19
            ), changes (stage, kind, delta) AS (
                SELECT stage, 0::smallint, -count(*) FROM placed GROUP BY stage
                UNION ALL SELECT stage, 3::smallint, count(*) FROM placed GROUP BY stage
                UNION ALL SELECT stage, 8::smallint, count(*) FROM placed GROUP BY stage
                UNION ALL SELECT stage, 11::smallint, count(*) FROM placed WHERE open GROUP BY stage
            ), ",
            counted!(),
            "SELECT * FROM taken ORDER BY place"
        )
    };
}

/// The best ready jobs of stage `$1` that no other session is claiming. They expire at the times `$3`.
macro_rules! claim_of_stage {
    ($cost:literal) => {
        claim!(
            concat!(
                "SELECT id, stage, 0 AS rank, priority, claim_number, open, worker, changed_at FROM jobs
                 WHERE stage = $1 AND state = 0 ",
                $cost,
                " AND (SELECT NOT paused FROM stages WHERE id = $1)
                 ORDER BY priority DESC, id LIMIT cardinality($2::text[]) FOR UPDATE SKIP LOCKED"
            ),
            expires at "($3::bigint[])[placed.place]"
        )
    };
}

const CLAIM: &str = claim_of_stage!("");
const CLAIM_OF_COST: &str = claim_of_stage!("AND cost = $6");

/// The best ready jobs of the stages `$1`, the first first; they expire after `$3`. Those among them that have another cost than
/// `$6` are left, and all if a job of these stages is due: it may be a better one.
const CLAIM_NEXT: &str = claim!(
    "SELECT id, stage, rank, priority, claim_number, open, worker, changed_at, visibility FROM (
        SELECT jobs.*, wanted.rank, wanted.visibility, wanted.cost AS wanted_cost
        FROM unnest($1::integer[], $3::bigint[], $6::text[]) WITH ORDINALITY AS wanted (stage, visibility, cost, rank)
        CROSS JOIN LATERAL (
            SELECT id, stage, cost, priority, claim_number, open, worker, changed_at FROM jobs
            WHERE jobs.stage = wanted.stage AND state = 0 AND (SELECT NOT paused FROM stages WHERE id = wanted.stage)
            ORDER BY priority DESC, id LIMIT cardinality($2::text[]) FOR UPDATE SKIP LOCKED
        ) AS jobs
        LIMIT cardinality($2::text[])
     ) AS best
     WHERE (wanted_cost IS NULL OR cost = wanted_cost) AND NOT EXISTS (
        SELECT FROM stages CROSS JOIN LATERAL (
            SELECT FROM jobs WHERE stage = stages.id AND state IN (1, 3) AND due_at <= ($4::bigint[])[1] LIMIT 1
        ) AS due
        WHERE id = ANY ($1) AND NOT paused OFFSET 0)",
    expires at "($4::bigint[])[placed.place] + placed.visibility"
);

/// The fence: locks the jobs, and answers those whose claims are the newest and have not ended.
const FENCE: &str = r#"
    SELECT claim.place, jobs.state, jobs.key, jobs."group", jobs.priority
    FROM (
        SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) WITH ORDINALITY AS c (job, stage, number, place)
        ORDER BY job
    ) AS claim
    CROSS JOIN LATERAL (
        SELECT stage, state, key, "group", priority, claim_number, open FROM jobs WHERE id = claim.job OFFSET 0 FOR UPDATE
    ) AS jobs
    WHERE jobs.stage = claim.stage AND jobs.claim_number = claim.number AND jobs.open"#;

/// [`JobCall::Done`](crate::job::transition::JobCall::Done), `Again` and `Bury` of claims that the fence let through. Without a
/// cause, the job is done.
const END: &str = concat!(
    "WITH given AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::smallint[], $5::smallint[], $6::bigint[],
                             $7::bigint[], $8::text[], $9::text[], $10::text[], $11::integer[], $12::text[])
            AS g (job, stage, number, came, went, due_at, now, cause, error, detail, outputs, result)
    ), attempted AS (
        INSERT INTO evidence (job, claim_number, worker, started_at, ended_at, cause, error, detail)
        SELECT job, number, worker, changed_at, now, cause, error, detail
        FROM given CROSS JOIN LATERAL (SELECT worker, changed_at FROM jobs WHERE id = job OFFSET 0) AS jobs
        WHERE cause IS NOT NULL
        ON CONFLICT (job, claim_number) DO NOTHING
    ), completed AS (
        INSERT INTO completions (stage, job, claim_number, finished_at, outputs, result)
        SELECT stage, job, number, now, outputs, result FROM given WHERE cause IS NULL
    ), ended AS (
        UPDATE jobs
        SET state = went, open = false, due_at = given.due_at, changed_at = now, error = coalesce(given.error, jobs.error),
            failures = failures + (cause IS NOT DISTINCT FROM 'failure')::integer,
            crashes = crashes + (cause IS NOT DISTINCT FROM 'crash')::integer,
            rate_limited = rate_limited + (cause IS NOT DISTINCT FROM 'rate_limited')::integer
        FROM given WHERE jobs.id = job
    ), changes (stage, kind, delta) AS (
        SELECT stage, came, -1 FROM given
        UNION ALL SELECT stage, went, 1 FROM given
        UNION ALL SELECT stage, CASE cause WHEN 'failure' THEN 10::smallint WHEN 'crash' THEN 11::smallint
                                           WHEN 'rate_limited' THEN 12::smallint ELSE 9::smallint END, 1 FROM given
    ), ",
    counted!(),
    "SELECT 1"
);

/// Keeps the newest 20 attempts of each job. Refusals for the rate go first: they say nothing about the job.
const TRIM: &str = "
    DELETE FROM evidence USING (
        SELECT job, claim_number,
               row_number() OVER (PARTITION BY job ORDER BY cause = 'rate_limited', claim_number DESC)
        FROM evidence WHERE job = ANY ($1::bigint[])
    ) AS old (job, claim_number, place)
    WHERE evidence.job = old.job AND evidence.claim_number = old.claim_number AND old.place > 20";

/// Claims that this very call has concluded before. `+ 0` keeps the index of stages out of it.
const REPEATED: &str = "
    SELECT place FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) WITH ORDINALITY AS claim (job, stage, number, place)
    WHERE EXISTS (SELECT FROM completions WHERE completions.stage = claim.stage AND completions.job = claim.job
                      AND completions.claim_number = claim.number OFFSET 0)
       OR EXISTS (SELECT FROM jobs JOIN evidence ON evidence.job = jobs.id AND evidence.claim_number = jobs.claim_number
                  WHERE jobs.id = claim.job AND jobs.claim_number = claim.number AND jobs.stage + 0 = claim.stage
                  OFFSET 0)";

const COUNT: &str = concat!(
    "WITH changes (stage, kind, delta) AS (SELECT * FROM unnest($1::integer[], $2::smallint[], $3::bigint[])), ",
    counted!(),
    "SELECT 1"
);

/// [`JobCall::GroupLeft`](crate::job::transition::JobCall::GroupLeft) of held jobs whose whole group has left the stages before.
const RELEASE_GROUPS: &str = concat!(
    r#"WITH clear AS MATERIALIZED (
        SELECT stages.id AS stage, moved."group", moved.now
        FROM stages CROSS JOIN unnest($1::text[], $2::bigint[]) AS moved ("group", now)
        WHERE stages.after <> '{}' AND NOT EXISTS (
            SELECT FROM unnest(stages.after) AS before (stage) CROSS JOIN LATERAL (
                SELECT FROM jobs WHERE jobs."group" = moved."group" AND jobs.stage = before.stage AND jobs.state < 5 LIMIT 1
            ) AS jobs
            OFFSET 0)
    ), held AS MATERIALIZED (
        SELECT jobs.id, clear.stage, (jobs.due_at > clear.now)::integer::smallint AS state
        FROM clear CROSS JOIN LATERAL (
            SELECT id, due_at FROM jobs
            WHERE jobs."group" = clear."group" AND jobs.stage = clear.stage AND jobs.state = 2
            ORDER BY id OFFSET 0 FOR UPDATE
        ) AS jobs
    ), moved AS (
        UPDATE jobs SET state = held.state FROM held WHERE jobs.id = held.id
    ), changes (stage, kind, delta) AS (
        SELECT stage, 2::smallint, -count(*) FROM held GROUP BY stage
        UNION ALL SELECT stage, state, count(*) FROM held GROUP BY stage, state
    ), "#,
    counted!(),
    "SELECT count(*) FROM held"
);

/// The fence, and a call of the workers whose claims it lets through.
macro_rules! fenced_update {
    ($state:literal, $set:literal) => {
        concat!(
            "WITH locked AS MATERIALIZED (
                SELECT jobs.id, jobs.stage, jobs.state, claim.at, claim.place
                FROM (
                    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
                        AS c (job, stage, number, at, place)
                    ORDER BY job
                ) AS claim
                CROSS JOIN LATERAL (
                    SELECT id, stage, state, claim_number, open FROM jobs WHERE id = claim.job OFFSET 0 FOR UPDATE
                ) AS jobs
                WHERE jobs.stage = claim.stage AND jobs.claim_number = claim.number AND jobs.open
            ), moved AS (
                UPDATE jobs SET state = ",
            $state,
            ", ",
            $set,
            " FROM locked WHERE jobs.id = locked.id
            ), changes (stage, kind, delta) AS (
                SELECT stage, state, -1 FROM locked UNION ALL SELECT stage, ",
            $state,
            "::smallint, 1 FROM locked
            ), ",
            counted!(),
            "SELECT place FROM locked"
        )
    };
}

/// [`JobCall::Renew`](crate::job::transition::JobCall::Renew).
const RENEW: &str = fenced_update!("3", "due_at = locked.at");
/// [`JobCall::Release`](crate::job::transition::JobCall::Release).
const RELEASE: &str = fenced_update!("0", "open = false, changed_at = locked.at");

const PEEK: &str = "
    SELECT paused, (SELECT cost FROM jobs WHERE stage = $1 AND state = 0 ORDER BY priority DESC, id LIMIT 1),
           (SELECT min(due_at) FROM jobs WHERE stage = $1 AND state IN (1, 3))
    FROM stages WHERE id = $1";
