//! Handlers that are processes: good ones, and ones that hang, print garbage, fork and eat memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tollway::Limiter;
use tollway_core::Span;
use tollway_pipeline::handler::guard::GuardProgram;
use tollway_pipeline::run::Runner;
use tollway_pipeline::{
    CommandConfig, Engine, HandlerConfig, Job, JobCost, NewJob, SqliteEngine, StageConfig, State,
};

use super::{enqueue, jobs, last_attempt, name, stage};

/// When a handler hangs: later than Python starts on a busy machine.
pub(super) const HANGS: Span = Span::from_secs(4);

/// A stage with a process as its handler, on a real file and in real time.
pub(super) struct Lab {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) limiter: Limiter,
    pub(super) folder: TempDir,
}

impl Lab {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap());
        let limiter = Limiter::builder().policy("adobe", ["100 requests / hour bucket"]).unwrap().build();
        Self { engine, limiter, folder }
    }

    pub(super) async fn enqueue(&self, count: usize) {
        enqueue(&self.engine, "a", count, self.limiter.clock().now()).await;
    }

    pub(super) async fn start(&self, stage: StageConfig) -> Runner {
        Runner::builder(self.engine.clone(), self.limiter.clone())
            .guard(GuardProgram { program: env!("CARGO_BIN_EXE_pipeline-guard").into() })
            .stage(stage)
            .start()
            .await
            .unwrap()
    }

    /// Runs until no job is open.
    pub(super) async fn run(&self, stage: StageConfig) -> Vec<Job> {
        let runner = self.start(stage).await;
        tokio::time::timeout(Duration::from_secs(60), runner.finished()).await.unwrap().unwrap();
        runner.drain(Span::from_secs(5)).await.unwrap();
        jobs(&self.engine).await
    }

    pub(super) fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("worker.log")
    }

    /// A stage whose process behaves like this, and whose first failure or crash is the last one.
    pub(super) fn stage(&self, behaviour: &str) -> StageConfig {
        let log = self.log().display().to_string();
        let script = format!("WORKER_LOG={log} exec python3 tests/handlers/worker.py {behaviour}");
        with(CommandConfig::new(["sh", "-c", &script]))
    }
}

pub(super) fn with(command: CommandConfig) -> StageConfig {
    StageConfig {
        handler: Some(HandlerConfig::Command(command)),
        tries: 1,
        crashes: 1,
        concurrency: 4,
        ..stage("a")
    }
}

pub(super) fn command(stage: &mut StageConfig) -> &mut CommandConfig {
    let Some(HandlerConfig::Command(command)) = &mut stage.handler else { panic!("no command") };
    command
}

fn is_alive(pid: &str) -> bool {
    // A zombie is dead, too.
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

pub(super) async fn are_gone(pids: &str) {
    for pid in pids.split_whitespace() {
        for _ in 0..1_000 {
            if !is_alive(pid) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!is_alive(pid), "process {pid} is alive");
    }
}

/// P9: a few long-lived processes do many jobs.
#[tokio::test]
async fn long_lived_process_does_many_jobs() {
    let lab = Lab::new();
    lab.enqueue(300).await;
    let mut stage = lab.stage("good");
    stage.next = Some(name("b"));
    let runner = lab.start(stage).await;
    while jobs(&lab.engine).await.iter().filter(|job| job.stage == name("b")).count() < 300 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runner.drain(Span::from_secs(5)).await.unwrap();
    let jobs = jobs(&lab.engine).await;
    assert!(jobs.iter().any(|job| job.key == "a-00299>a.0" && job.data == r#"{"from": "a-00299"}"#));
}

/// The four answers of the protocol.
#[tokio::test]
async fn answers_of_the_protocol() {
    let lab = Lab::new();
    let now = lab.limiter.clock().now();
    let words = ["done", "retry", "dead"];
    let new = words.map(|word| NewJob::new(&name("a"), word, &format!("\"{word}\"")).unwrap());
    lab.engine.enqueue(new.to_vec(), now).await.unwrap();
    let jobs = lab.run(StageConfig { tries: 2, ..lab.stage("tell") }).await;
    assert_eq!([jobs[0].state, jobs[1].state, jobs[2].state], [State::Done, State::Dead, State::Dead]);
    assert_eq!([jobs[1].failures, jobs[2].failures], [2, 1]);
    assert_eq!(last_attempt(&lab.engine, &jobs[2]).await.0, "told so");
}

/// P2: no answer in time: the process is ended, and the job has failed.
#[tokio::test]
async fn hanging_handler_is_ended() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let jobs = lab.run(StageConfig { timeout: HANGS, ..lab.stage("hang") }).await;
    assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 1, 0));
    assert_eq!(last_attempt(&lab.engine, &jobs[0]).await.0, format!("no answer within {HANGS}"));
    are_gone(&std::fs::read_to_string(lab.log()).unwrap()).await;
}

/// What is not the protocol ends the process; the first bytes are evidence, without secrets.
#[tokio::test]
async fn garbage_is_a_crash_with_evidence() {
    for (behaviour, error, detail) in [
        ("garbage", "not the protocol's JSON", "Traceback: hello [CARGO_MANIFEST_DIR]"),
        ("unknown", "job 999999 is none of its jobs", "999999"),
        ("long", "a line over 1 MiB", "xxxx"),
    ] {
        let lab = Lab::new();
        lab.enqueue(1).await;
        let mut stage = lab.stage(behaviour);
        command(&mut stage).env = vec!["CARGO_MANIFEST_DIR".to_owned()];
        let jobs = lab.run(stage).await;
        assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 0, 1), "{behaviour}");
        let (found, evidence) = last_attempt(&lab.engine, &jobs[0]).await;
        assert!(found.contains(error), "{found}");
        assert!(evidence.contains(detail) && evidence.len() <= 4_096, "{evidence}");
    }
}

/// What a handler forks ends with it, also what left its process group.
#[tokio::test]
async fn forks_end_with_their_handler() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let jobs = lab.run(lab.stage("fork")).await;
    assert_eq!((jobs[0].state, jobs[0].crashes), (State::Dead, 1));
    assert!(last_attempt(&lab.engine, &jobs[0]).await.0.contains("exit code 3"));
    let pids = std::fs::read_to_string(lab.log()).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2);
    are_gone(&pids).await;
}

/// Errors of a handler are kept without the values of variables that the config allows it.
#[tokio::test]
async fn secrets_are_not_kept_as_evidence() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let mut stage = lab.stage("secret");
    command(&mut stage).env = vec!["CARGO_MANIFEST_DIR".to_owned()];
    let jobs = lab.run(stage).await;
    assert_eq!(jobs[0].error, "cannot log in with [CARGO_MANIFEST_DIR]");
}

#[tokio::test]
async fn memory_is_limited() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let mut stage = lab.stage("memory");
    command(&mut stage).memory_max = Some(300 << 20);
    let jobs = lab.run(stage).await;
    assert_eq!((jobs[0].state, jobs[0].crashes), (State::Dead, 1));
    let (_, detail) = last_attempt(&lab.engine, &jobs[0]).await;
    assert!(detail.contains("MemoryError"), "{detail}");
}

/// Five processes in a row that die at once pause the stage, and most jobs are untouched.
#[tokio::test]
async fn broken_command_pauses_its_stage() {
    for broken in [&["false"][..], &["sh", "-c", "exec nonexistent"]] {
        let lab = Lab::new();
        lab.enqueue(50).await;
        let stage =
            StageConfig { concurrency: 1, crashes: 3, ..with(CommandConfig::new(broken.iter().copied())) };
        let runner = lab.start(stage).await;
        while !runner.progress().await.unwrap().stages[0].paused {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        runner.drain(Span::from_secs(5)).await.unwrap();
        let jobs = jobs(&lab.engine).await;
        let crashes: u32 = jobs.iter().map(|job| job.crashes).sum();
        assert!((5..=7).contains(&crashes), "{crashes}");
        assert!(jobs.iter().filter(|job| job.state == State::Ready).count() >= 45);
    }
}

/// P9: with `each`, the exit code is the answer.
#[tokio::test]
async fn exit_code_counts_with_each() {
    let lab = Lab::new();
    let now = lab.limiter.clock().now();
    let new = ["0", "75", "65", "9"].map(|code| NewJob::new(&name("a"), code, code).unwrap());
    lab.engine.enqueue(new.to_vec(), now).await.unwrap();
    // Reads its whole input: it must end after the job.
    let script = r#"code=$(cat | sed 's/.*"data":\([0-9]*\).*/\1/'); echo "working"; test $code = 9 && kill -9 $$; exit $code"#;
    let command = CommandConfig { each: true, ..CommandConfig::new(["sh", "-c", script]) };
    let jobs = lab.run(StageConfig { tries: 2, crashes: 2, ..with(command) }).await;
    let found: Vec<_> = jobs.iter().map(|job| (job.state, job.failures, job.crashes)).collect();
    let (done, dead) = (State::Done, State::Dead);
    assert_eq!(found, [(done, 0, 0), (dead, 2, 0), (dead, 1, 0), (dead, 0, 2)]);
}

/// A handler that says when it begins: its turn begins then, and it settles what it took.
#[tokio::test]
async fn handler_begins_and_settles() {
    let lab = Lab::new();
    lab.enqueue(2).await;
    let mut stage = lab.stage("begin");
    command(&mut stage).begin = true;
    stage.take = JobCost::new([("adobe", "requests", 10)]).unwrap();
    let jobs = lab.run(stage).await;
    assert!(jobs.iter().all(|job| job.state == State::Done), "{jobs:?}");
    assert_eq!(lab.limiter.usage("adobe").await.unwrap().limits[0].used, 6);
}

#[tokio::test]
async fn slots_share_a_process() {
    let lab = Lab::new();
    lab.enqueue(2).await;
    let mut stage = lab.stage("pair");
    command(&mut stage).slots = 2;
    let jobs = lab.run(StageConfig { timeout: Span::from_secs(20), next: Some(name("a")), ..stage }).await;
    assert!(jobs.iter().filter(|job| job.key.len() == 7).all(|job| job.state == State::Done), "{jobs:?}");
}

/// A process gets the variables that the config allows, and no others.
#[tokio::test]
async fn environment_is_an_allowlist() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let mut stage = lab.stage("env");
    command(&mut stage).env = vec!["CARGO_MANIFEST_DIR".to_owned()];
    lab.run(stage).await;
    let results = lab.engine.results(&name("a"), None, 10).await.unwrap();
    let found = results.items[0].result.clone().unwrap();
    assert!(found.contains("CARGO_MANIFEST_DIR") && found.contains("PATH"), "{found}");
    assert!(!found.contains("RUST_TEST_THREADS"), "{found}");
}

/// A drained runner leaves no process behind.
#[tokio::test]
async fn drain_ends_processes_and_gives_back() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let runner = lab.start(lab.stage("hang")).await;
    while std::fs::read_to_string(lab.log()).unwrap_or_default().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let drained = runner.drain(Span::from_millis(100)).await.unwrap();
    assert_eq!(drained.given_back, 1);
    let jobs = jobs(&lab.engine).await;
    assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Ready, 0, 0));
    are_gone(&std::fs::read_to_string(lab.log()).unwrap()).await;
}
