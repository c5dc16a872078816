//! Jobs in Postgres.

use std::sync::Arc;

use tollway_pipeline::{PostgresEngine, State};
use tollway_testkit::servers::PostgresServer;

use super::lab::{Lab, UNGATED, job};

/// P8: from the file to Postgres and back; every job once.
#[test]
fn jobs_move_to_postgres_and_back() {
    let server = PostgresServer::start();
    let url = server.url();
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.jobs();
    jobs.kill(job("extract", "dead").group("g").unwrap(), "extract", "HTTP 500", "<html>");
    jobs.add((0..1_000).map(|n| job("autotag", &n.to_string())).collect());
    jobs.add((1_000..1_500).map(|n| job("autotag", &n.to_string())).collect());
    drop(jobs);
    let report = lab.json(&["migrate", "--to", &url]);
    assert_eq!((&report["moved"], &report["complete"]), (&1_501.into(), &true.into()));
    assert!(!report["to"].to_string().contains("password"));

    lab.home.write("tollway.toml", UNGATED.replace("sqlite:pdf.db", &url));
    let there = lab.jobs_of(Arc::new(PostgresEngine::open(&url).unwrap()));
    assert_eq!((there.in_state(State::Ready).len(), there.in_state(State::Dead).len()), (1_500, 1));
    there.complete("autotag", &[("extract", "1")], Some("[1]"));
    // The commands work there, too.
    assert!(lab.ok(&["dead", "show", "dead"]).contains("| <html>"));
    assert!(lab.ok(&["results", "--stage", "autotag"]).contains("\"result\":[1]"));
    assert!(lab.ok(&["pause", "extract"]).contains("1 job ready"));
    assert!(lab.ok(&["why", "0>autotag.0"]).contains("stage extract is paused"));
    let (exit, _, error) = lab.run(&["backup", "copy.db"]);
    assert_eq!(exit, 2);
    assert!(error.contains("pg_dump"), "{error}");
    assert_eq!(lab.ok(&["dead", "redrive", "--all"]), "redrove 1 dead letter\n");
    drop(there);

    let report = lab.json(&["migrate", "--to", "sqlite:pdf.db"]);
    assert_eq!(report["moved"], 1_501);
    let back = lab.jobs();
    let mut keys: Vec<String> =
        (1..1_500).map(|n| n.to_string()).chain(["0>autotag.0", "dead"].map(str::to_owned)).collect();
    keys.sort();
    assert_eq!(back.keys(State::Ready), keys);
}

/// Two spellings of one database: every job would seem to be there already.
#[test]
fn same_database_by_another_url_is_refused() {
    let server = PostgresServer::start();
    let url = server.url();
    let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &url));
    let jobs = lab.jobs_of(Arc::new(PostgresEngine::open(&url).unwrap()));
    jobs.add(vec![job("autotag", "1")]);
    let other = format!("{url}?schema=tollway_pipeline&connections=2");
    let (exit, _, error) = lab.run(&["migrate", "--to", &other]);
    assert_eq!(exit, 2, "{error}");
    assert!(error.contains("is the engine that the jobs are in"), "{error}");
    assert_eq!((jobs.in_state(State::Ready).len(), jobs.paused("autotag")), (1, false));
    // Another schema is another engine.
    assert_eq!(lab.json(&["migrate", "--to", &format!("{url}?schema=other")])["moved"], 1);
}
