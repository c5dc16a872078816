//! `kill -9` of the whole pipeline at random moments: nothing is lost, and nothing is committed twice.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tollway::{Limiter, StoreUrl};
use tollway_core::{Name, Span};
use tollway_pipeline::handler::guard::GuardProgram;
use tollway_pipeline::run::Runner;
use tollway_pipeline::{CommandConfig, Engine, HandlerConfig, JobCost, NewJob, SqliteEngine, StageConfig};

const FOLDER: &str = "TOLLWAY_KILL_FOLDER";
const JOBS: usize = 400;
const KILLS: u64 = 10;
const CONCURRENCY: u32 = 8;

/// Not a test of its own: the pipeline that is killed. Says when it has enqueued, and when all is done.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.join("jobs.db")).unwrap());
        let store: StoreUrl = format!("file:{}", folder.join("limits").display()).parse().unwrap();
        let limiter =
            Limiter::builder().policy("vendor", ["1000 / second"]).unwrap().store_at(&store).unwrap().build();
        let job = |n| NewJob::new(&Name::new("a").unwrap(), &format!("a-{n:05}"), "{}").unwrap();
        engine.enqueue((0..JOBS).map(job).collect(), limiter.clock().now()).await.unwrap();
        say("enqueued");
        let runner = Runner::builder(engine, limiter)
            .guard(GuardProgram { program: env!("CARGO_BIN_EXE_pipeline-guard").into() })
            .sole_owner()
            .stage(StageConfig { next: Some(Name::new("b").unwrap()), ..stage("a", &folder) })
            .stage(stage("b", &folder))
            .start()
            .await
            .unwrap();
        runner.finished().await.unwrap();
        runner.drain(Span::from_secs(5)).await.unwrap();
        say("finished");
    });
}

fn stage(name: &str, folder: &Path) -> StageConfig {
    let log = folder.join("calls");
    let script = format!("WORKER_LOG={} exec python3 tests/handlers/worker.py call", log.display());
    StageConfig {
        take: JobCost::new([("vendor", "requests", 1)]).unwrap(),
        handler: Some(HandlerConfig::Command(CommandConfig::new(["sh", "-c", &script]))),
        concurrency: CONCURRENCY,
        // Every kill is a crash of the jobs that run.
        crashes: 1_000,
        backoff: Span::from_millis(10),
        ..StageConfig::new(Name::new(name).unwrap())
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// P4: ten kills lose no job and commit nothing twice, as a checker says that shares no code with the pipeline.
#[test]
fn killed_pipeline_loses_nothing_and_commits_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut interrupted = 0;
    for kill in 0..KILLS {
        let moment = Duration::from_millis(100 + kill * 7_919 % 300);
        interrupted += u32::from(!run(folder.path(), Some(moment)));
    }
    assert!(interrupted >= 5, "only {interrupted} runs were killed before they were done");
    assert!(run(folder.path(), None), "the last run was not killed");

    // In flight at a kill: what ran, and what finished but was not yet stored.
    let extra = KILLS * u64::from(2 * CONCURRENCY);
    let checked = check(&folder.path().join("jobs.db"), &folder.path().join("calls"), extra);
    let said = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&said));
    check_the_checker(folder.path(), extra);
}

/// Runs the pipeline, and kills it this long after it has enqueued. True if it was done before.
fn run(folder: &Path, kill_after: Option<Duration>) -> bool {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("enqueued")), "it did not start");
    if let Some(moment) = kill_after {
        std::thread::sleep(moment);
        victim.kill().unwrap();
    }
    let finished = lines.any(|line| line == "finished");
    victim.wait().unwrap();
    handlers_are_gone(folder);
    finished
}

/// A pipeline that is killed takes its handlers with it: their guards see to that.
fn handlers_are_gone(folder: &Path) {
    let mark = format!("WORKER_LOG={}", folder.display());
    let alive = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
        environments.filter(|environment| String::from_utf8_lossy(environment).contains(&mark)).count()
    };
    for _ in 0..1_000 {
        if alive() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} handlers outlive their pipeline", alive());
}

fn check(database: &Path, calls: &Path, extra: u64) -> Output {
    let mut command = Command::new("python3");
    command.arg("tests/check_jobs.py").args([database, calls]).args([JOBS.to_string(), extra.to_string()]);
    command.output().unwrap()
}

/// The checker finds what it is there for: each of these changes is what a bug would leave behind.
fn check_the_checker(folder: &Path, extra: u64) {
    let (good, calls) = (folder.join("jobs.db"), folder.join("calls"));
    for (bug, sql) in [
        ("a lost job", "DELETE FROM jobs WHERE key = 'a-00007'"),
        ("a lost output", "DELETE FROM jobs WHERE key = 'a-00007>a.1'"),
        (
            "a second set of outputs",
            "INSERT INTO jobs (stage, state, priority, due_at, created_at, changed_at, cost, key) SELECT stage, state, 0, 0, 0, 0, '', 'a-00007>a.2' FROM jobs WHERE key = 'a-00007>a.1'",
        ),
        ("a job that is not done", "UPDATE jobs SET state = 3 WHERE key = 'a-00007>a.0'"),
        ("a completion that is missing", "DELETE FROM completions WHERE job = (SELECT max(id) FROM jobs)"),
    ] {
        let bad = folder.join("bad.db");
        std::fs::copy(&good, &bad).unwrap();
        rusqlite::Connection::open(&bad).unwrap().execute_batch(sql).unwrap();
        assert!(!check(&bad, &calls, extra).status.success(), "{bug} was not found");
    }
    let text = std::fs::read_to_string(&calls).unwrap();
    let without: String =
        text.lines().filter(|line| !line.ends_with(" a-00007")).map(|line| format!("{line}\n")).collect();
    let bad = folder.join("bad-calls");
    std::fs::write(&bad, without).unwrap();
    assert!(!check(&good, &bad, extra).status.success(), "an answer without a call was not found");
    std::fs::write(&bad, text.repeat(3)).unwrap();
    assert!(!check(&good, &bad, extra).status.success(), "calls beyond those in flight were not found");
}
