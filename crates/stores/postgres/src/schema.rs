//! The tables.

use tollway_postgres_link::Migrations;

use crate::error::TEXT;

pub(crate) const TABLES: Migrations = Migrations {
    version_table: "schema_version",
    lock: "tollway schema",
    steps: &[include_str!("migrations/1.sql")],
    text: TEXT,
};
