//! The process that is killed: a pipeline of two stages, each of whose jobs calls the vendor once.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollway::{Limiter, StoreUrl};
use tollway_core::{Clock, Policy, Span, WhenStoreFails};
use tollway_memory::FileStore;
use tollway_pipeline::bounds::BATCH_MAX;
use tollway_pipeline::handler::guard::GuardProgram;
use tollway_pipeline::handler::{Answer, Handed, Handler, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::run::alarm::{AlarmRules, LogSink};
use tollway_pipeline::{
    CommandConfig, Engine, EngineUrl, HandlerConfig, HttpConfig, JobCost, NewJob, PostgresEngine,
    SqliteEngine, SqsEngine, StageConfig, State,
};

use crate::audit::{Audit, AuditedEngine};
use crate::bugs::Bug;
use crate::stage;
use crate::stepped_clock::SteppedClock;

/// The plan of a child, as JSON.
const PLAN: &str = "TOLLWAY_TEST_PLAN";

/// How long a claim lasts. The calls of slow jobs take longer.
pub(crate) const VISIBILITY: Span = Span::from_secs(1);

/// How far a strict limit keeps grants from the ends of a window.
const EDGE: Span = Span::from_millis(250);

/// How many jobs an enqueuer lets wait, so that they are soon finished.
const READY_MAX: u64 = 100;

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// A file, or the URL of a Postgres.
    pub(crate) jobs: String,
    /// The store of the limiter.
    pub(crate) store: String,
    pub(crate) limit: String,
    /// No call may be one too many: none starts near the end of a window, and none without the store.
    pub(crate) strict: bool,
    /// A clock in place of the machine's, for a store in a file.
    pub(crate) clock: Option<SteppedClock>,
    /// Where the vendor listens.
    pub(crate) vendor: String,
    pub(crate) handlers: Handlers,
    pub(crate) concurrency: u32,
    /// The second stage takes nothing: its workers go on with the next job without the dispatcher.
    pub(crate) free_stage: bool,
    pub(crate) audit: PathBuf,
    /// The name of the worker, which a restarted one has again.
    pub(crate) worker: String,
    /// The name of this process, in the audit and in keys.
    pub(crate) process: String,
    pub(crate) enqueues: Enqueues,
    pub(crate) bug: Option<Bug>,
    pub(crate) dies_at: Option<u64>,
}

/// What it enqueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Enqueues {
    /// So many jobs, in as few calls as possible.
    AtOnce(u64),
    /// One after each pause, until it is told to end.
    Every(Duration),
    /// As many as are missing for so many to wait, after each pause, until it is told to end.
    Ahead { jobs: u64, every: Duration },
}

/// What calls the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Handlers {
    /// This process.
    InProcess,
    /// Python processes.
    Python,
    /// The same, which begin their calls themselves, at the last moment.
    PythonThatBegins,
    /// The same as `Python`, which also fork.
    PythonThatForks,
    /// The handler for URLs.
    Http,
}

/// Not a test of its own. Works until its input is closed, then finishes all jobs and exits with success.
#[test]
fn process() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(run(plan));
    std::process::exit(0);
}

/// A command that starts a child.
pub(crate) fn command(plan: &Plan) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::process", "--nocapture", "--test-threads=1"]);
    command.env(PLAN, serde_json::to_string(plan).unwrap());
    command
}

pub(crate) fn open(jobs: &str) -> Arc<dyn Engine> {
    match jobs.split_once(':') {
        Some(("postgres", _)) => Arc::new(PostgresEngine::open(jobs).unwrap()),
        Some(("sqs", _)) => Arc::new(SqsEngine::open(&EngineUrl::parse(jobs).unwrap()).unwrap()),
        _ => Arc::new(SqliteEngine::open(Path::new(jobs)).unwrap()),
    }
}

async fn run(plan: Plan) {
    let audit = Audit::open(&plan.audit, &plan.process);
    let clock = plan.clock.as_ref().map(SteppedClock::follow);
    let engine: Arc<dyn Engine> = Arc::new(AuditedEngine {
        inner: match &clock {
            Some(clock) => {
                Arc::new(SqliteEngine::open_going_by(clock.clone(), Path::new(&plan.jobs)).unwrap())
            }
            None => open(&plan.jobs),
        },
        audit: audit.clone(),
        bug: plan.bug,
        dies_at: plan.dies_at,
        finishes: 0.into(),
    });
    let limiter = limiter(&plan, clock);
    let runner = start(&plan, engine.clone(), limiter.clone()).await;
    let told_to_end = Arc::new(AtomicBool::new(false));
    let told = told_to_end.clone();
    std::thread::spawn(move || {
        // The test has closed our input, or is gone.
        let _ = std::io::stdin().read(&mut [0]);
        told.store(true, Ordering::SeqCst);
    });
    say("started");
    let mut enqueuer = Enqueuer { engine, audit, limiter, process: plan.process, next: 0 };
    match plan.enqueues {
        Enqueues::AtOnce(count) => {
            for left in (1..=count).rev().step_by(BATCH_MAX) {
                enqueuer.enqueue(left.min(BATCH_MAX as u64)).await;
            }
        }
        Enqueues::Every(pause) => {
            while !told_to_end.load(Ordering::SeqCst) {
                if enqueuer.ready().await.is_none_or(|ready| ready < READY_MAX) {
                    enqueuer.enqueue(1).await;
                }
                tokio::time::sleep(pause).await;
            }
        }
        Enqueues::Ahead { jobs, every } => {
            while !told_to_end.load(Ordering::SeqCst) {
                let ready = enqueuer.ready().await.unwrap_or(jobs);
                if ready < jobs {
                    enqueuer.enqueue((jobs - ready).min(BATCH_MAX as u64)).await;
                }
                tokio::time::sleep(every).await;
            }
        }
    }
    while !told_to_end.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runner.finished().await.unwrap();
    runner.drain(Span::from_secs(10)).await.unwrap();
}

fn limiter(plan: &Plan, clock: Option<Arc<dyn Clock>>) -> Limiter {
    let policy = Policy::new("vendor", [&*plan.limit]).unwrap();
    let policy = match plan.strict {
        true => policy.with_edge(EDGE).with_when_store_fails(WhenStoreFails::Closed),
        false => policy,
    };
    let builder = Limiter::builder().with_policy(policy).unwrap();
    let Some(clock) = clock else {
        let store: StoreUrl = plan.store.parse().unwrap();
        return builder.store_at(&store).unwrap().build();
    };
    // The limiter goes by the store's time, as it does when it opens the store itself.
    builder.store(Arc::new(FileStore::open(plan.store.trim_start_matches("file:"), clock).unwrap())).build()
}

struct Enqueuer {
    engine: Arc<dyn Engine>,
    audit: Arc<Audit>,
    limiter: Limiter,
    process: String,
    next: u64,
}

impl Enqueuer {
    /// How many jobs of the first stage wait, if that can be read.
    async fn ready(&self) -> Option<u64> {
        let counts = self.engine.counts().await.ok()?;
        let first = counts.iter().find(|counts| counts.stage == stage("a"));
        Some(first.map_or(0, |counts| counts.of(State::Ready)))
    }

    /// Enqueues jobs in one call, however long it takes. Says why it does not work.
    async fn enqueue(&mut self, count: u64) {
        let keys: Vec<String> =
            (self.next..self.next + count).map(|n| format!("{}-{n:05}", self.process)).collect();
        self.next += count;
        let jobs: Vec<NewJob> = keys.iter().map(|key| NewJob::new(&stage("a"), key, "{}").unwrap()).collect();
        while let Err(error) = self.engine.enqueue(jobs.clone(), self.limiter.clock().now()).await {
            say(&format!("error {error}"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        keys.iter().for_each(|key| self.audit.note("enqueued", &stage("a"), key, 0));
    }
}

async fn start(plan: &Plan, engine: Arc<dyn Engine>, limiter: Limiter) -> Runner {
    let sole = !plan.jobs.starts_with("postgres:") && !plan.jobs.starts_with("sqs:");
    let mut builder = Runner::builder(engine, limiter.clone())
        .guard(GuardProgram { program: env!("CARGO_BIN_EXE_pipeline-guard").into() })
        // Most attempts may be crashes here, and that is no reason to pause a stage.
        .alarms(AlarmRules { attempts_min: u64::MAX, ..AlarmRules::default() }, Arc::new(LogSink))
        .worker(&plan.worker);
    if sole {
        builder = builder.sole_owner();
    }
    for name in ["a", "b"] {
        builder = builder.stage(stage_config(plan, name));
        if plan.handlers == Handlers::InProcess {
            builder = builder.handler(name, in_process(plan, &limiter));
        }
    }
    builder.start().await.unwrap()
}

fn stage_config(plan: &Plan, name: &str) -> StageConfig {
    let handler = match plan.handlers {
        Handlers::InProcess => None,
        Handlers::Http => Some(HandlerConfig::Http(HttpConfig::new(&plan.vendor))),
        Handlers::Python | Handlers::PythonThatBegins | Handlers::PythonThatForks => {
            let Plan { vendor, process, .. } = plan;
            let begin = plan.handlers == Handlers::PythonThatBegins;
            let behaviour = match plan.handlers {
                Handlers::PythonThatBegins => "begin_and_call",
                Handlers::PythonThatForks => "fork_and_call",
                _ => "call",
            };
            let python = format!("exec python3 tests/handlers/worker.py {behaviour}");
            let script = format!("WORKER_VENDOR={vendor} WORKER_OF={process} {python}");
            Some(HandlerConfig::Command(CommandConfig { begin, ..CommandConfig::new(["sh", "-c", &script]) }))
        }
    };
    let take = match plan.bug {
        Some(Bug::ClaimBeforeToken) => JobCost::OF_STAGE,
        _ if plan.free_stage && name == "b" => JobCost::OF_STAGE,
        _ => JobCost::new([("vendor", "requests", 1)]).unwrap(),
    };
    StageConfig {
        take,
        handler,
        concurrency: plan.concurrency,
        visibility_timeout: VISIBILITY,
        timeout: Span::from_secs(60),
        // Every kill is a crash of the jobs that run.
        crashes: 1_000,
        backoff: Span::from_millis(10),
        backoff_max: Span::from_millis(50),
        next: (name == "a").then(|| stage("b")),
        ..StageConfig::new(stage(name))
    }
}

/// What a job of the first stage hands on.
pub(crate) fn output_data(key: &str, index: usize) -> String {
    format!("{{\"of\": \"{key}\", \"n\": {index}}}")
}

fn in_process(plan: &Plan, limiter: &Limiter) -> Handler {
    let (plan, limiter) = (Arc::new(plan.clone()), limiter.clone());
    handler_fn(move |task: Task| {
        let (plan, limiter) = (plan.clone(), limiter.clone());
        async move {
            if plan.bug == Some(Bug::ClaimBeforeToken) {
                let mut permit = limiter.take("vendor").await.unwrap();
                permit.begin().await.unwrap();
            }
            let (stage, key) = (task.job.stage.as_str(), &task.job.key);
            if call(&plan, stage, key).await.is_err() {
                return Answer::retry("the vendor did not answer");
            }
            let count = if stage == "a" { 2 } else { 0 };
            let outputs = (0..count).map(|index| Handed::new(output_data(key, index))).collect();
            Answer::Done { outputs, result: None, cost: BTreeMap::new() }
        }
    })
}

/// Calls the vendor, and waits for the end of its response.
async fn call(plan: &Plan, stage: &str, key: &str) -> std::io::Result<()> {
    let mut stream = tokio::net::TcpStream::connect(&plan.vendor).await?;
    let head = format!("POST / HTTP/1.1\r\nstage: {stage}\r\nkey: {key}\r\nworker: {}\r\n\r\n", plan.process);
    stream.write_all(head.as_bytes()).await?;
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}
