//! A machine whose date is set back, or forward, under a pipeline on a SQLite file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollway::Limiter;
use tollway_core::{Clock, Name, Span, Timestamp};
use tollway_memory::{FileStore, WallClock};
use tollway_pipeline::handler::{Answer, Handler, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{
    ClaimRequest, Claimed, Engine, Enqueued, JobCost, NewJob, SocketEngine, SocketServer, SqliteEngine,
    StageConfig, State,
};
use tollway_testkit::{MachineClock, SteppedClock};

const NOON: Timestamp = Timestamp::from_secs(20_000 * 86_400 + 43_200);
const HOUR: Span = Span::from_hours(1);
const MINUTE: Span = Span::from_mins(1);

/// Far longer than anything here takes, and far shorter than a step of the date.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn stage() -> Name {
    Name::new("a").unwrap()
}

/// A machine, and a file of jobs on it.
struct Lab {
    folder: tempfile::TempDir,
    machine: Arc<MachineClock>,
}

impl Lab {
    fn at_noon() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), machine: Arc::new(MachineClock::at(NOON)) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    fn open(&self) -> SqliteEngine {
        SqliteEngine::open_going_by(self.machine.clone(), &self.file()).unwrap()
    }

    fn set_back(&self, by: Span) {
        self.machine.set_date(self.machine.now().minus(by));
    }

    /// Enqueues a job that is due after this time.
    async fn enqueue(&self, engine: &dyn Engine, key: &str, delay: Span) {
        let now = engine.time(self.machine.now());
        let job = NewJob::new(&stage(), key, "{}").unwrap().not_before(now.plus(delay));
        assert!(matches!(engine.enqueue(vec![job], now).await.unwrap()[..], [Enqueued::New(_)]));
    }

    /// What a process whose clock shows the date can claim.
    async fn claim(&self, engine: &dyn Engine) -> Vec<Claimed> {
        engine
            .claim(ClaimRequest::new(&stage(), "worker", MINUTE).count(9), self.machine.now())
            .await
            .unwrap()
    }
}

/// P4: a delayed job is due in time, whether the engine was open when the date was set back or is opened then.
#[tokio::test]
async fn delayed_jobs_are_due_in_time_though_the_date_was_set_back() {
    for (by, reopened) in [(HOUR, false), (HOUR, true), (Span::from_days(1), true)] {
        let lab = Lab::at_noon();
        let mut engine = lab.open();
        lab.enqueue(&engine, "delayed", MINUTE).await;
        lab.machine.advance(Span::from_secs(10));
        lab.set_back(by);
        if reopened {
            drop(engine);
            engine = lab.open();
        }
        assert_eq!(engine.time(lab.machine.now()), NOON.plus(Span::from_secs(10)));
        lab.machine.advance(Span::from_secs(49));
        assert_eq!(lab.claim(&engine).await, [], "after 59 seconds, date {by} back");
        lab.machine.advance(Span::from_secs(1));
        let claimed = lab.claim(&engine).await;
        assert_eq!(claimed.len(), 1, "after a minute, date {by} back");
        assert_eq!(claimed[0].expires_at, NOON.plus(MINUTE).plus(MINUTE));
    }
}

/// After a reboot with a date that is still behind, time goes on from the newest time in the file.
#[tokio::test]
async fn time_of_jobs_goes_on_after_a_reboot() {
    let lab = Lab::at_noon();
    let engine = lab.open();
    lab.enqueue(&engine, "first", Span::ZERO).await;
    lab.machine.advance(MINUTE);
    lab.enqueue(&engine, "delayed", MINUTE).await;
    drop(engine);
    lab.set_back(HOUR);
    lab.machine.reboot();
    let engine = lab.open();
    assert_eq!(engine.time(lab.machine.now()), NOON.plus(MINUTE));
    lab.machine.advance(MINUTE);
    assert_eq!(lab.claim(&engine).await.len(), 2);
}

/// A file that a version without a clock made, and that such a version opens again.
#[tokio::test]
async fn files_of_earlier_versions_have_a_time_and_keep_their_version() {
    let lab = Lab::at_noon();
    let earlier = SqliteEngine::open(&lab.file()).unwrap();
    lab.enqueue(&earlier, "delayed", MINUTE).await;
    drop(earlier);
    let sql = |statement: &str| rusqlite::Connection::open(lab.file()).unwrap().execute_batch(statement);
    sql("DROP TABLE clock").unwrap();
    lab.set_back(HOUR);
    let engine = lab.open();
    assert_eq!(engine.time(lab.machine.now()), NOON, "that of the newest job");
    lab.machine.advance(MINUTE);
    assert_eq!(lab.claim(&engine).await.len(), 1);
    drop(engine);
    let connection = rusqlite::Connection::open(lab.file()).unwrap();
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 2, "versions that know no clock still open it");
}

/// A command whose date is an hour ahead or behind does not move the time of the process that runs the pipeline: the claims
/// of running jobs would expire.
#[tokio::test(flavor = "multi_thread")]
async fn commands_go_by_the_time_of_the_process_that_runs() {
    let lab = Lab::at_noon();
    let engine = Arc::new(lab.open());
    let _server = SocketServer::start(&lab.file(), engine.clone()).unwrap();
    lab.enqueue(&*engine, "running", Span::ZERO).await;
    assert_eq!(lab.claim(&*engine).await.len(), 1);
    for date in [NOON.plus(HOUR), NOON.minus(HOUR)] {
        lab.machine.set_date(date);
        let command = SocketEngine::connect(&lab.file()).await.unwrap().unwrap();
        assert!(command.time(date).since(NOON) < MINUTE && command.time(date) >= NOON);
        command.peek(&stage(), date).await.unwrap();
        assert_eq!(engine.counts().await.unwrap()[0].of(State::Running), 1);
        assert!(engine.time(NOON).since(NOON) < MINUTE);
    }
}

/// A process that works on the jobs, on a file store, as `pipeline run` does.
struct Process {
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    runner: Runner,
}

impl Process {
    async fn start(folder: &Path, clock: &Arc<SteppedClock>, handler: Handler) -> Self {
        let store = FileStore::open(folder.join("limits"), clock.clone()).unwrap();
        let limits = ["4 requests / second", "16 requests / day"];
        let limiter = Limiter::builder().policy("vendor", limits).unwrap().store(Arc::new(store)).build();
        let mut opened = None;
        // The tasks of the runner before may have it for a moment.
        until("the file is free", async || {
            opened = SqliteEngine::open_going_by(clock.clone(), &folder.join("jobs.db")).ok();
            opened.is_some()
        })
        .await;
        let engine: Arc<dyn Engine> = Arc::new(opened.unwrap());
        let runner = Runner::builder(engine.clone(), limiter.clone()).sole_owner().stage(StageConfig {
            take: JobCost::new([("vendor", "requests", 1)]).unwrap(),
            backoff: Span::from_millis(300),
            ..StageConfig::new(stage())
        });
        let runner = runner.handler("a", handler).start().await.unwrap();
        Self { engine, limiter, runner }
    }

    async fn enqueue(&self, keys: std::ops::Range<usize>) {
        let jobs = keys.map(|key| NewJob::new(&stage(), &key.to_string(), "{}").unwrap()).collect();
        self.engine.enqueue(jobs, self.engine.time(self.limiter.clock().now())).await.unwrap();
    }
}

async fn until(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(WAIT_MAX, wait).await.is_ok(), "never: {what}");
}

/// P3, I1: every job fails once and waits for its retry. The date is set back by an hour while the process runs, and by a day
/// before the next one: all jobs are done, no call is made twice for one unit, and the next job waits for the day's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_goes_on_though_the_date_is_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SteppedClock::of(Arc::new(WallClock)));
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = || {
        let calls = calls.clone();
        handler_fn(move |task: Task| {
            calls.fetch_add(1, Ordering::SeqCst);
            let first = task.job.failures == 0;
            async move { if first { Answer::retry("not yet") } else { Answer::done() } }
        })
    };
    let made = |count| async move |calls: &AtomicUsize| calls.load(Ordering::SeqCst) >= count;

    let process = Process::start(folder.path(), &clock, handler()).await;
    process.enqueue(0..8).await;
    until("calls before the step", async || made(2)(&calls).await).await;
    clock.set_back(HOUR);
    until("calls after the step", async || made(9)(&calls).await).await;
    process.runner.drain(Span::from_secs(10)).await.unwrap();
    drop((process.engine, process.limiter));

    clock.set_back(Span::from_days(1));
    let process = Process::start(folder.path(), &clock, handler()).await;
    let finished = tokio::time::timeout(WAIT_MAX, process.runner.finished()).await;
    finished.expect("all jobs are done within a minute").unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 16);
    assert_eq!(process.engine.counts().await.unwrap()[0].of(State::Done), 8);

    process.enqueue(8..9).await;
    let waits = async || process.runner.progress().await.unwrap().stages[0].waiting_until.is_some();
    until("the next job waits for quota", waits).await;
    let progress = process.runner.progress().await.unwrap();
    let wait = progress.stages[0].waiting_until.unwrap().since(progress.at);
    assert!(wait <= Span::from_days(1), "{wait}: until the end of the day by the store's time");
    assert_eq!(calls.load(Ordering::SeqCst), 16, "nothing is granted twice");
    process.runner.drain(Span::from_secs(10)).await.unwrap();
}

/// A limiter whose clock is behind that of the jobs, as with a store that is not on this machine.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_due_in_time_for_a_limiter_whose_clock_is_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let clock = Arc::new(SteppedClock::of(Arc::new(WallClock)));
    clock.set_forward(HOUR);
    let engine = SqliteEngine::open_going_by(clock.clone(), &file).unwrap();
    let job = NewJob::new(&stage(), "delayed", "{}").unwrap();
    let job = job.not_before(clock.now().plus(Span::from_millis(300)));
    engine.enqueue(vec![job], clock.now()).await.unwrap();
    drop(engine);

    clock.set_back(HOUR);
    let limiter = Limiter::builder().policy("vendor", ["9 requests / second"]).unwrap().build();
    let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open_going_by(clock, &file).unwrap());
    let take = JobCost::new([("vendor", "requests", 1)]).unwrap();
    let runner = Runner::builder(engine.clone(), limiter)
        .stage(StageConfig { take, ..StageConfig::new(stage()) })
        .handler("a", handler_fn(|_| async { Answer::done() }));
    let runner = runner.start().await.unwrap();
    let finished = tokio::time::timeout(WAIT_MAX, runner.finished()).await;
    finished.expect("the job is done within a minute").unwrap();
    assert_eq!(engine.counts().await.unwrap()[0].of(State::Done), 1);
    runner.drain(Span::from_secs(10)).await.unwrap();
}
