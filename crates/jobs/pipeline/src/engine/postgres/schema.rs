//! The tables.

use tollway_postgres_link::Migrations;

use super::error::TEXT;

pub(super) const TABLES: Migrations = Migrations {
    version_table: "pipeline_version",
    lock: "tollway pipeline",
    steps: &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql")],
    text: TEXT,
};
