//! The engine of another process, over a socket.

use std::sync::Arc;

use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::conformance::{self, Effort};
use tollway_pipeline::run::progress::{HandlerOutage, Progress};
use tollway_pipeline::run::{AlarmView, CallTimes, LastError, RunnerView};
use tollway_pipeline::{Administration, Engine, EngineFault, SocketEngine, SocketServer, SqliteEngine};

/// A command that reaches a running pipeline over its socket finds the same engine.
#[test]
fn engine_over_a_socket_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let owner = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut servers = Vec::new();
    let make = || -> Box<dyn Engine> {
        let file = folder.path().join(format!("{}.db", servers.len()));
        let engine = Arc::new(SqliteEngine::open(&file).unwrap());
        servers.push(owner.block_on(async { SocketServer::start(&file, engine).unwrap() }));
        Box::new(owner.block_on(SocketEngine::connect(&file)).unwrap().unwrap())
    };
    let report = conformance::run(Effort { seed: 1, sequences: 2, steps: 300 }, make);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.skipped, 0);
}

#[tokio::test]
async fn without_an_owner_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    assert!(SocketEngine::connect(&folder.path().join("jobs.db")).await.unwrap().is_none());
}

/// The path of a socket may have 107 bytes; a file's may be much longer.
#[tokio::test(flavor = "multi_thread")]
async fn long_paths_have_a_socket_too() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let file = deep.join("jobs.db");
    let _server = SocketServer::start(&file, Arc::new(SqliteEngine::open(&file).unwrap())).unwrap();
    let engine = SocketEngine::connect(&file).await.unwrap().unwrap();
    assert_eq!(engine.counts().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_that_ends_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let server = SocketServer::start(&file, Arc::new(SqliteEngine::open(&file).unwrap())).unwrap();
    let engine = SocketEngine::connect(&file).await.unwrap().unwrap();
    drop(server);
    // The task that answers ends with its server, a moment later.
    let error = loop {
        match engine.record(Timestamp::from_secs(1)).await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.fault, EngineFault::Network, "{error}");
    assert!(error.message.contains("may have ended"), "{error}");
}

/// P8: a command beside a runner sees what only the runner knows.
#[tokio::test(flavor = "multi_thread")]
async fn commands_see_what_the_runner_knows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let engine = Arc::new(SqliteEngine::open(&file).unwrap());
    assert_eq!(engine.runner_view().await.unwrap(), None);
    let server = SocketServer::start(&file, engine).unwrap();
    let command = SocketEngine::connect(&file).await.unwrap().unwrap();
    assert_eq!(command.runner_view().await.unwrap(), None, "nothing runs yet");
    let (stage, at) = (Name::new("a").unwrap(), Timestamp::from_secs(7));
    let outage = HandlerOutage { since: at, next_try_at: at, error: "refused".to_owned() };
    let calls = CallTimes { median: Span::from_secs(1), longest: Span::from_secs(2) };
    let view = RunnerView {
        unreachable: [(stage.clone(), outage.clone())].into(),
        calls: [(stage.clone(), calls)].into(),
        last_error: Some(LastError { at, stage: stage.clone(), error: "page 7".to_owned() }),
        alarms: vec![AlarmView {
            alarm: "dead_letters".to_owned(),
            stage: Some(stage.clone()),
            text: "10".to_owned(),
        }],
    };
    let shown = view.clone();
    server.show(move || shown.clone());
    assert_eq!(command.runner_view().await.unwrap(), Some(view));
    let progress = Progress::read(&command, &[stage], at).await.unwrap();
    assert_eq!(progress.stages[0].unreachable, Some(outage));
}
