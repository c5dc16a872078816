-- A line is written again with every grant: room in its page keeps that from touching any index.
CREATE TABLE lines (
    key bytea PRIMARY KEY,
    line bytea NOT NULL,
    expires bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX lines_by_expiry ON lines (expires);

-- The last call of each writer and tag, so that one that is sent again counts once.
CREATE TABLE calls (
    writer bytea NOT NULL,
    tag bytea NOT NULL,
    sequence bigint NOT NULL,
    applied_at bigint NOT NULL,
    found bytea NOT NULL,
    kept_until bigint NOT NULL,
    PRIMARY KEY (writer, tag)
) WITH (fillfactor = 50);
CREATE INDEX calls_by_end ON calls (kept_until);

-- One row: up to when lines have been forgotten. No clock may find those times again.
CREATE TABLE horizon (forgotten bigint NOT NULL);
INSERT INTO horizon VALUES (0);

CREATE TABLE settings (
    policy text NOT NULL,
    "limit" text NOT NULL,
    amount bigint NOT NULL,
    burst bigint,
    set_at bigint NOT NULL,
    PRIMARY KEY (policy, "limit")
);
