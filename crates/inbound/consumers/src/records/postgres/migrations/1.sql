-- Times are microseconds since 1970, both ends of a range included. -1 and 0 are no limit.
CREATE TABLE consumer_records (
    id text PRIMARY KEY,
    consumer text COLLATE "C" NOT NULL,
    api_name text,
    api_version text,
    bank_id text,
    valid_from bigint NOT NULL,
    valid_to bigint NOT NULL,
    per_second bigint NOT NULL,
    per_minute bigint NOT NULL,
    per_hour bigint NOT NULL,
    per_day bigint NOT NULL,
    per_week bigint NOT NULL,
    per_month bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

-- No two of the same range and scope. Texts of a scope are never empty, so an empty one stands for none.
CREATE UNIQUE INDEX consumer_records_of_consumer ON consumer_records
    (consumer, valid_from, valid_to, coalesce(api_name, ''), coalesce(api_version, ''), coalesce(bank_id, ''));

CREATE TABLE consumer_blocked (
    consumer text COLLATE "C" PRIMARY KEY,
    since bigint NOT NULL
);

-- Whoever changes a record, by whatever program, tells all who listen when it commits.
CREATE FUNCTION consumer_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollway_consumers', TG_TABLE_SCHEMA);
    RETURN NULL;
END $$;

CREATE TRIGGER consumer_records_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON consumer_records
    FOR EACH STATEMENT EXECUTE FUNCTION consumer_changed();

CREATE TRIGGER consumer_blocked_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON consumer_blocked
    FOR EACH STATEMENT EXECUTE FUNCTION consumer_changed();
