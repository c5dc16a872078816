//! A worker that ends a job goes on with the next one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tollway::Limiter;
use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Handed, Handler, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{
    Capabilities, Engine, EngineAnswer, EngineReply, EngineRequest, JobCost, PostgresEngine, SqliteEngine,
    StageConfig, State,
};
use tollway_testkit::servers::PostgresServer;

use super::paused::Lab;
use super::{chain, enqueue, jobs, stage};

/// Counts the calls of workers.
struct CountingEngine {
    inner: Box<dyn Engine>,
    claims: AtomicUsize,
    finishes: AtomicUsize,
}

impl Engine for CountingEngine {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        self.inner.hints()
    }

    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        match &request {
            EngineRequest::Claim { .. } => self.claims.fetch_add(1, Ordering::SeqCst),
            EngineRequest::Finish { .. } => self.finishes.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        self.inner.call(request)
    }
}

/// Notes the stage and number of every job. Jobs of `a` hand one on with this cost.
fn noting(log: &Arc<Mutex<Vec<String>>>, cost: JobCost) -> Handler {
    let log = log.clone();
    handler_fn(move |task: Task| {
        let (stage, key) = (task.job.stage.as_str(), task.job.key.split('>').next().unwrap_or_default());
        log.lock().unwrap().push(format!("{stage} {key}"));
        let outputs = match stage {
            "a" => vec![Handed { cost: cost.clone(), ..Handed::new("{}") }],
            _ => Vec::new(),
        };
        async move { Answer::Done { outputs, result: None, cost: [].into() } }
    })
}

fn each_job_through_both_stages(count: usize) -> Vec<String> {
    (0..count).flat_map(|n| ["a", "b"].map(|stage| format!("{stage} a-{n:05}"))).collect()
}

/// P1: one worker costs one call of the engine for each stage of a job, and works in the order of the dispatcher.
#[test]
fn single_worker_makes_one_call_for_each_stage_of_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let server = PostgresServer::start();
    let engines: [Box<dyn Engine>; 2] = [
        Box::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap()),
        Box::new(PostgresEngine::open(&server.url()).unwrap()),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for inner in engines {
        let counting = Arc::new(CountingEngine { inner, claims: 0.into(), finishes: 0.into() });
        let engine: Arc<dyn Engine> = counting.clone();
        let log = Arc::default();
        runtime.block_on(async {
            let limiter = Limiter::builder().build();
            enqueue(&engine, "a", 50, limiter.clock().now()).await;
            let mut builder = Runner::builder(engine.clone(), limiter).total(1);
            for stage in chain(["a", "b"].map(stage).to_vec()) {
                builder = builder.handler(stage.name.as_str(), noting(&log, JobCost::OF_STAGE)).stage(stage);
            }
            let runner = builder.start().await.unwrap();
            runner.finished().await.unwrap();
            runner.drain(Span::ZERO).await.unwrap();
        });
        assert_eq!(*log.lock().unwrap(), each_job_through_both_stages(50));
        assert_eq!(counting.finishes.load(Ordering::SeqCst), 100);
        let claims = counting.claims.load(Ordering::SeqCst);
        assert!(claims < 25, "{claims} calls of `claim`, and not only at the begin and the end");
    }
}

/// P3: a job with a cost of its own in a later stage is not overtaken by jobs of earlier stages that take nothing.
#[tokio::test(start_paused = true)]
async fn worker_leaves_its_slot_to_a_job_that_takes_something() {
    let lab = Lab::new([("adobe", "100 / hour")]);
    let log = Arc::default();
    enqueue(&lab.engine, "a", 20, lab.now()).await;
    let cost = JobCost::new([("adobe", "requests", 1)]).unwrap();
    let mut builder = Runner::builder(lab.engine.clone(), lab.limiter.clone()).total(1);
    for stage in chain(["a", "b"].map(stage).to_vec()) {
        builder = builder.handler(stage.name.as_str(), noting(&log, cost.clone())).stage(stage);
    }
    let runner = builder.start().await.unwrap();
    runner.finished().await.unwrap();
    assert_eq!(*log.lock().unwrap(), each_job_through_both_stages(20));
    assert_eq!(lab.limiter.usage("adobe").await.unwrap().limits[0].used, 20);
    runner.drain(Span::ZERO).await.unwrap();
}

/// P4: a job whose retry is due is not left behind a backlog, although the workers of its stage never rest.
#[tokio::test(start_paused = true)]
async fn due_retry_goes_before_younger_jobs() {
    let lab = Lab::new([]);
    let log = Arc::new(Mutex::new(Vec::new()));
    enqueue(&lab.engine, "a", 40, lab.now()).await;
    let noted = log.clone();
    let first_fails = handler_fn(move |task: Task| {
        noted.lock().unwrap().push(task.job.key.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match (task.job.key.as_str(), task.job.failures) {
                ("a-00000", 0) => Answer::retry("not yet"),
                _ => Answer::done(),
            }
        }
    });
    let second = Span::from_secs(1);
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { concurrency: 1, backoff: second, backoff_max: second, ..stage("a") })
        .handler("a", first_fails)
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let log = log.lock().unwrap();
    let again = log.iter().rposition(|key| key == "a-00000").unwrap();
    assert!((5..30).contains(&again), "{log:?}");
    runner.drain(Span::ZERO).await.unwrap();
}

/// P4: a runner that is drained or cut off at any moment leaves no claim behind.
#[tokio::test(flavor = "multi_thread")]
async fn drained_runner_has_given_every_claim_back() {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap());
    let limiter = Limiter::builder().build();
    enqueue(&engine, "a", 5_000, limiter.clock().now()).await;
    for round in 0..20 {
        let runner = Runner::builder(engine.clone(), limiter.clone())
            .stage(StageConfig { concurrency: 4, ..stage("a") })
            .handler("a", handler_fn(async |_| Answer::done()))
            .start()
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(round)).await;
        runner.drain(if round % 2 == 0 { Span::ZERO } else { Span::from_secs(10) }).await.unwrap();
        let jobs = jobs(&engine).await;
        let claimed: Vec<_> = jobs.iter().filter(|job| job.state == State::Running).collect();
        assert!(claimed.is_empty(), "round {round}: {claimed:?}");
    }
}
