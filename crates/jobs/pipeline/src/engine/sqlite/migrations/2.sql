-- The counts of past minutes and hours, as JSON: see Administration::record.
CREATE TABLE samples (at INTEGER PRIMARY KEY, stages TEXT NOT NULL) STRICT;
