//! The tables keep their columns and their bytes: every row after a fixed sequence of operations.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files. Masked: the writer, drawn at random for each process, and times of the
//! machine's clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use tollway_core::Store;
use tollway_postgres::PostgresStore;
use tollway_testkit::ManualClock;
use tollway_testkit::golden::{LATER, START, compare, late_steps, play, set_limits, steps};
use tollway_testkit::servers::PostgresServer;
use tollway_testkit::takes::fresh_name;

fn golden(name: &str, found: &str) {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name), found);
}

fn store(schema: &str, clock: Arc<ManualClock>) -> PostgresStore {
    // Busy machines are slow; this test is not about how fast an answer comes.
    let url = format!("{}?schema={schema}&deadline=20s", PostgresServer::shared().url());
    PostgresStore::with_clock(&url, clock).unwrap()
}

/// All rows as text; texts in bytea columns are printed as text.
fn rows(schema: &str, columns: &str, table: &str) -> String {
    let sql = format!("SELECT {columns} FROM {schema}.{table} ORDER BY 1, 2");
    format!("{table}: {columns}\n{}\n", PostgresServer::shared().query(&sql))
}

fn columns(schema: &str) -> String {
    let sql = format!(
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns \
         WHERE table_schema = '{schema}' ORDER BY table_name, ordinal_position"
    );
    let indexes = format!(
        "SELECT replace(indexdef, '{schema}.', '') FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY 1"
    );
    let server = PostgresServer::shared();
    format!("{}\n{}\n", server.query(&sql), server.query(&indexes))
}

#[test]
fn tables_keep_their_bytes() {
    let (schema, clock) = (fresh_name(), Arc::new(ManualClock::at(START)));
    let store = store(&schema, clock.clone());
    let outcomes = play(&store, &clock, &steps());
    set_limits(&store);
    let found = [
        columns(&schema),
        rows(&schema, "convert_from(key, 'UTF8'), convert_from(line, 'UTF8'), expires", "lines"),
        rows(
            &schema,
            "'WRITER ' || length(writer), convert_from(tag, 'UTF8'), sequence, applied_at, convert_from(found, 'UTF8'), \
             CASE WHEN kept_until > 0 THEN 'TIME' END",
            "calls",
        ),
        rows(&schema, "forgotten, ''", "horizon"),
        rows(&schema, "policy, \"limit\", amount, burst, CASE WHEN set_at > 0 THEN 'TIME' END", "settings"),
    ];
    golden("tables.txt", &found.concat());
    golden("outcomes.txt", &outcomes);
    golden("late_outcomes.txt", &play(&store, &clock, &late_steps()));
}

/// Rows that another process wrote are understood.
#[test]
fn rows_of_another_process_give_the_expected_decisions() {
    let (schema, clock) = (fresh_name(), Arc::new(ManualClock::at(START)));
    play(&store(&schema, clock.clone()), &clock, &steps());
    clock.set(LATER);
    let other: Box<dyn Store> = Box::new(store(&schema, clock.clone()));
    golden("late_outcomes.txt", &play(&*other, &clock, &late_steps()));
}
