//! Postgres plans a statement by what it knows of a table. A table of calls that was never analysed is taken to hold one
//! call for each writer, and holds a minute of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;

use crate::support::{fresh_schema, policy, subject, try_take};

/// Writes each statement with its plan and its buffers into the log. Nothing analyses a table.
const EXPLAINED: [&str; 5] = [
    "shared_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=0",
    "auto_explain.log_analyze=on",
    "auto_explain.log_buffers=on",
    "autovacuum=off",
];

/// After so many executions a session keeps its plan.
const PLAN_IS_KEPT_AFTER: usize = 10;

/// How many buffers a lookup of one call may touch: the index, its row, the row of the horizon.
const BUFFERS_MAX: u64 = 36;

/// The buffers of each statement in the log that looks up calls, in order.
fn buffers_of_lookups(log: &str) -> Vec<u64> {
    let lookups = log.split("Query Text:").filter(|said| said.contains("FROM horizon"));
    let buffers = |said: &str| {
        let line = said.lines().find(|line| line.contains("Buffers: shared"))?;
        let counts = line.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok());
        Some(counts.sum())
    };
    lookups.filter_map(buffers).collect()
}

/// 17,972 buffers for each call before, with one process's takes of a minute on as many subjects.
#[test]
fn a_call_reads_no_other_call_of_its_writer_without_statistics() {
    let server = PostgresServer::start_with(&EXPLAINED);
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}&deadline=20s&connections=1", server.url());
    let (store, policy) = (PostgresStore::connect(&url).unwrap(), policy("1000 requests / day"));
    (0..PLAN_IS_KEPT_AFTER).for_each(|_| assert!(try_take(&store, &policy, &subject("s"))));
    server.query(&format!(
        "INSERT INTO {schema}.calls SELECT writer, convert_to('subject ' || number, 'UTF8'), 1, applied_at, found, kept_until
         FROM (SELECT * FROM {schema}.calls LIMIT 1) AS one, generate_series(1, 20000) AS number"
    ));
    let before = buffers_of_lookups(&server.log()).len();
    (0..5).for_each(|_| assert!(try_take(&store, &policy, &subject("s"))));
    let buffers = buffers_of_lookups(&server.log()).split_off(before);
    assert_eq!(buffers.len(), 5, "{}", server.log());
    assert!(buffers.iter().all(|buffers| *buffers <= BUFFERS_MAX), "{buffers:?}");
}
