-- The counts of past minutes and hours, as JSON: see Administration::record.
CREATE TABLE samples (at bigint PRIMARY KEY, stages text NOT NULL);
