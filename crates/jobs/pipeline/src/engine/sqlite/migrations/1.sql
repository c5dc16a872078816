-- States are numbers: 0 ready, 1 delayed, 2 held, 3 running, 4 dead, 5 done, 6 cancelled. Times are microseconds.

CREATE TABLE stages (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    paused      INTEGER NOT NULL DEFAULT 0,
    concurrency INTEGER,
    after       TEXT NOT NULL DEFAULT '[]'      -- JSON: ids of the stages that groups must have left
) STRICT;

-- AUTOINCREMENT: the number of a purged job is never used again.
CREATE TABLE jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    stage        INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    claim_number INTEGER NOT NULL DEFAULT 0,
    open         INTEGER NOT NULL DEFAULT 0,    -- 1: the newest claim has not ended, though it may have expired
    failures     INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,
    rate_limited INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL,
    cost         TEXT NOT NULL,
    key          TEXT NOT NULL,
    "group"      TEXT,
    worker       TEXT NOT NULL DEFAULT '',
    error        TEXT NOT NULL DEFAULT ''
) STRICT;

-- Apart from the rows above, which every claim rewrites.
CREATE TABLE data (job INTEGER PRIMARY KEY, data TEXT NOT NULL) STRICT;

CREATE UNIQUE INDEX jobs_key ON jobs (stage, key);
CREATE INDEX jobs_ready ON jobs (stage, priority DESC, id) WHERE state = 0;
CREATE INDEX jobs_ready_cost ON jobs (stage, cost, priority DESC, id) WHERE state = 0;
CREATE INDEX jobs_due ON jobs (stage, due_at) WHERE state IN (1, 3);
CREATE INDEX jobs_dead ON jobs (state) WHERE state = 4;
CREATE INDEX jobs_left ON jobs (stage, changed_at) WHERE state >= 5;
CREATE INDEX jobs_group ON jobs ("group", stage, state >= 5) WHERE "group" IS NOT NULL;

-- One row for each job that finished: a second one cannot be written.
CREATE TABLE completions (
    job          INTEGER PRIMARY KEY,
    stage        INTEGER NOT NULL,
    claim_number INTEGER NOT NULL,
    finished_at  INTEGER NOT NULL,
    outputs      INTEGER NOT NULL,
    result       TEXT
) STRICT;

CREATE TABLE evidence (
    job          INTEGER NOT NULL,
    claim_number INTEGER NOT NULL,
    worker       TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    cause        TEXT NOT NULL,
    error        TEXT NOT NULL,
    detail       TEXT NOT NULL,
    PRIMARY KEY (job, claim_number)
) STRICT, WITHOUT ROWID;

-- Kinds 0 to 6: jobs by state. Kinds from 7: events, see counters.rs.
CREATE TABLE counters (
    stage INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (stage, kind)
) STRICT, WITHOUT ROWID;
