-- Times are microseconds since 1970, both ends of a range included. -1 and 0 are no limit.
CREATE TABLE records (
    id TEXT NOT NULL PRIMARY KEY,
    consumer TEXT NOT NULL,
    api_name TEXT,
    api_version TEXT,
    bank_id TEXT,
    valid_from INTEGER NOT NULL,
    valid_to INTEGER NOT NULL,
    per_second INTEGER NOT NULL,
    per_minute INTEGER NOT NULL,
    per_hour INTEGER NOT NULL,
    per_day INTEGER NOT NULL,
    per_week INTEGER NOT NULL,
    per_month INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- No two of the same range and scope. Texts of a scope are never empty, so an empty one stands for none.
CREATE UNIQUE INDEX records_of_consumer ON records
    (consumer, valid_from, valid_to, ifnull(api_name, ''), ifnull(api_version, ''), ifnull(bank_id, ''));

CREATE TABLE blocked (
    consumer TEXT NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT;
