//! A pipeline in a folder, with jobs in any state.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollway::Clock;
use tollway::core::{Name, Span, Timestamp};
use tollway_memory::WallClock;
use tollway_pipeline::{
    Attempt, Cause, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, Enqueued, Evidence, Filter,
    Finished, Job, JobId, NewJob, Output, SocketServer, SqliteEngine, StageChange, State,
};

use crate::home::Home;

/// Three stages; the last waits for the groups of the others.
pub(super) const CONFIG: &str = r#"
    [policies.adobe]
    limits = ["200 requests / minute"]
    [pipelines.pdf]
    engine = "sqlite:pdf.db"
    [[pipelines.pdf.stages]]
    name = "autotag"
    take = { adobe = { requests = 1 } }
    handler = { command = ["cat"] }
    concurrency = 50
    [[pipelines.pdf.stages]]
    name = "extract"
    take = { adobe = { requests = 1 } }
    handler = { command = ["cat"] }
    concurrency = 50
    [[pipelines.pdf.stages]]
    name = "upload"
    handler = { command = ["cat"] }
    after = ["autotag", "extract"]
"#;

/// The same without a stage that waits.
pub(super) const UNGATED: &str = r#"
    [policies.adobe]
    limits = ["200 requests / minute"]
    [pipelines.pdf]
    engine = "sqlite:pdf.db"
    stages = [
        { name = "autotag", take = { adobe = { requests = 1 } }, handler = { command = ["cat"] } },
        { name = "extract", handler = { command = ["cat"] } },
    ]
"#;

pub(super) fn now() -> Timestamp {
    WallClock.now()
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn job(stage: &str, key: &str) -> NewJob {
    NewJob::new(&name(stage), key, &format!("{{\"chunk_key\":\"{key}\"}}")).unwrap()
}

/// A folder with a config, and its jobs.
pub(super) struct Lab {
    pub(super) home: Home,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Lab {
    pub(super) fn new() -> Self {
        Self::with_config(CONFIG)
    }

    pub(super) fn with_config(config: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { home: Home::with_config(config), runtime }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.home.path().join("pdf.db")
    }

    /// Runs `tollway pipeline ...`; its exit code, standard output and standard error.
    pub(super) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.home.run(&[&["pipeline"], arguments].concat())
    }

    /// The same; it must succeed.
    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        let (exit, stdout, stderr) = self.run(arguments);
        assert_eq!(exit, 0, "{arguments:?}: {stdout}{stderr}");
        stdout
    }

    /// The same with `--json`.
    pub(super) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Starts `tollway pipeline ...`, with its standard error in a file.
    pub(super) fn spawn(&self, arguments: &[&str], stderr: &Path) -> Child {
        let stderr = std::fs::File::create(stderr).unwrap();
        std::process::Command::new(env!("CARGO_BIN_EXE_tollway"))
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .arg("pipeline")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap()
    }

    /// The jobs, without another process that has them.
    pub(super) fn jobs(&self) -> Jobs<'_> {
        self.jobs_in(&self.file())
    }

    pub(super) fn jobs_in(&self, file: &Path) -> Jobs<'_> {
        // A task of the engine that had the file before may still end.
        let opened = (0..500).find_map(|_| {
            let opened = SqliteEngine::open(file);
            opened.map_err(|_| std::thread::sleep(std::time::Duration::from_millis(10))).ok()
        });
        self.jobs_of(Arc::new(opened.unwrap_or_else(|| SqliteEngine::open(file).unwrap())))
    }

    pub(super) fn jobs_of(&self, engine: Arc<dyn Engine>) -> Jobs<'_> {
        Jobs { engine, commands: None, runtime: &self.runtime }
    }

    /// The jobs of this process, as if it ran the pipeline: commands reach them over a socket.
    pub(super) fn running(&self) -> Jobs<'_> {
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&self.file()).unwrap());
        let commands =
            self.runtime.block_on(async { SocketServer::start(&self.file(), engine.clone()).unwrap() });
        Jobs { engine, commands: Some(commands), runtime: &self.runtime }
    }
}

/// Open jobs. Commands reach the file again when it is dropped.
pub(super) struct Jobs<'l> {
    pub(super) engine: Arc<dyn Engine>,
    #[expect(dead_code, reason = "answers commands while it is kept")]
    commands: Option<SocketServer>,
    runtime: &'l tokio::runtime::Runtime,
}

impl Jobs<'_> {
    pub(super) fn wait<T>(&self, answer: EngineAnswer<T>) -> T {
        self.runtime.block_on(answer).unwrap()
    }

    pub(super) fn add(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let id = |enqueued: Enqueued| match enqueued {
            Enqueued::New(id) | Enqueued::Duplicate(id) | Enqueued::Cancelled(id) => id,
        };
        self.wait(self.engine.enqueue(jobs, now())).into_iter().map(id).collect()
    }

    pub(super) fn claim(&self, stage: &str, count: usize) -> Vec<Claimed> {
        let request = ClaimRequest::new(&name(stage), "host-1:77", Span::from_mins(15)).count(count);
        self.wait(self.engine.claim(request, now()))
    }

    pub(super) fn finish(&self, claimed: Claimed, conclusion: Conclusion) {
        let finished = self.wait(self.engine.finish(claimed.claim, conclusion, now()));
        assert!(matches!(finished, Finished::Committed { .. }), "{finished:?}");
    }

    /// Claims one job of the stage, and hands it on.
    pub(super) fn complete(&self, stage: &str, outputs: &[(&str, &str)], result: Option<&str>) {
        let claimed = self.claim(stage, 1).pop().unwrap();
        let outputs = outputs.iter().map(|(to, data)| Output::new(&name(to), data).unwrap()).collect();
        self.finish(claimed, Conclusion::Done { outputs, result: result.map(str::to_owned) });
    }

    /// Makes a dead letter of a new job, with one attempt.
    pub(super) fn kill(&self, new: NewJob, stage: &str, error: &str, detail: &str) -> JobId {
        let id = self.add(vec![new.priority(i16::MAX)])[0];
        let claimed = self.claim(stage, 1).pop().unwrap();
        assert_eq!(claimed.job.id, id, "the new job goes first");
        let attempt = Attempt::new(Cause::Failure, error).detail(detail);
        self.finish(claimed, Conclusion::Dead { attempt });
        id
    }

    pub(super) fn all(&self, filter: Filter) -> Vec<Job> {
        let (mut jobs, mut after) = (Vec::new(), None);
        loop {
            let page = self.wait(self.engine.scan(filter.clone(), after, 1_000));
            jobs.extend(page.items);
            after = page.next;
            if after.is_none() {
                return jobs;
            }
        }
    }

    pub(super) fn in_state(&self, state: State) -> Vec<Job> {
        self.all(Filter { state: Some(state), ..Filter::default() })
    }

    /// The keys of jobs in this state, sorted.
    pub(super) fn keys(&self, state: State) -> Vec<String> {
        let mut keys: Vec<String> = self.in_state(state).into_iter().map(|job| job.key).collect();
        keys.sort();
        keys
    }

    pub(super) fn job(&self, id: JobId) -> Job {
        self.all(Filter { job: Some(id), ..Filter::default() }).pop().unwrap()
    }

    pub(super) fn evidence(&self, id: JobId) -> Vec<Evidence> {
        self.wait(self.engine.evidence(id))
    }

    pub(super) fn paused(&self, stage: &str) -> bool {
        let stages = self.wait(self.engine.stages());
        stages.iter().any(|known| known.stage.as_str() == stage && known.paused)
    }

    /// What a runner tells the engine when it starts.
    pub(super) fn gate(&self) {
        let change =
            StageChange { after: Some(vec![name("autotag"), name("extract")]), ..StageChange::default() };
        self.wait(self.engine.set_stage(&name("upload"), change, now()));
    }
}

/// Waits, with a generous timeout, until something is so.
#[allow(clippy::disallowed_methods, reason = "a bound for a test that would hang")]
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a child.
pub(super) fn signal(child: &Child, name: &str) {
    let sent = std::process::Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}
