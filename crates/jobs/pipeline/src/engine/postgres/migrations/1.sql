-- States are numbers: 0 ready, 1 delayed, 2 held, 3 running, 4 dead, 5 done, 6 cancelled. Times are microseconds.

CREATE TABLE stages (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    paused      boolean NOT NULL DEFAULT false,
    concurrency bigint,
    after       integer[] NOT NULL DEFAULT '{}'     -- ids of the stages that groups must have left
);

-- Numbers are drawn in the order of a batch, while its rows are inserted in the order of their keys.
CREATE SEQUENCE job_ids;

-- Data beyond 2 kB is kept apart by Postgres itself, so claims do not rewrite it. They do rewrite the row: it is vacuumed
-- long before a fifth of the table is dead, because claims step over dead entries at the head of the queue.
CREATE TABLE jobs (
    id           bigint PRIMARY KEY,
    stage        integer NOT NULL,
    state        smallint NOT NULL,
    priority     smallint NOT NULL,
    open         boolean NOT NULL DEFAULT false,    -- the newest claim has not ended, though it may have expired
    failures     integer NOT NULL DEFAULT 0,
    crashes      integer NOT NULL DEFAULT 0,
    rate_limited integer NOT NULL DEFAULT 0,
    due_at       bigint NOT NULL,
    claim_number bigint NOT NULL DEFAULT 0,
    created_at   bigint NOT NULL,
    changed_at   bigint NOT NULL,
    cost         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    "group"      text COLLATE "C",
    worker       text COLLATE "C" NOT NULL DEFAULT '',
    error        text COLLATE "C" NOT NULL DEFAULT '',
    data         text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE UNIQUE INDEX jobs_key ON jobs (stage, key);
CREATE INDEX jobs_ready ON jobs (stage, priority DESC, id) WHERE state = 0;
CREATE INDEX jobs_ready_cost ON jobs (stage, cost, priority DESC, id) WHERE state = 0;
CREATE INDEX jobs_due ON jobs (stage, due_at) WHERE state IN (1, 3);
CREATE INDEX jobs_dead ON jobs (id) WHERE state = 4;
CREATE INDEX jobs_left ON jobs (stage, changed_at) WHERE state >= 5;
CREATE INDEX jobs_group ON jobs ("group", stage, state) WHERE "group" IS NOT NULL;

-- One row for each job that finished: a second one cannot be written.
CREATE TABLE completions (
    stage        integer NOT NULL,
    job          bigint NOT NULL,
    claim_number bigint NOT NULL,
    finished_at  bigint NOT NULL,
    outputs      integer NOT NULL,
    result       text COLLATE "C",
    PRIMARY KEY (stage, job)
);

CREATE TABLE evidence (
    job          bigint NOT NULL,
    claim_number bigint NOT NULL,
    worker       text COLLATE "C" NOT NULL,
    started_at   bigint NOT NULL,
    ended_at     bigint NOT NULL,
    cause        text COLLATE "C" NOT NULL,
    error        text COLLATE "C" NOT NULL,
    detail       text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, claim_number)
);

-- Kinds 0 to 6: jobs by state. Kinds from 7: events, see counters.rs. A counter is the sum of its shards, which sessions
-- choose by their process, so that they seldom wait for each other.
CREATE TABLE counters (
    stage integer NOT NULL,
    kind  smallint NOT NULL,
    shard integer NOT NULL,
    n     bigint NOT NULL,
    PRIMARY KEY (stage, kind, shard)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
