//! Handing on, groups, retries, draining, purging.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Handed, Task, handler_fn};
use tollway_pipeline::run::alarm::{Alarm, AlarmRules, AlarmSink};
use tollway_pipeline::run::{Drained, Runner};
use tollway_pipeline::{Change, Engine, Filter, NewJob, SqliteEngine, StageConfig, State};

use super::paused::Lab;
use super::{chain, enqueue, jobs, name, stage};

/// P4: a job hands on nothing, one job or many, byte for byte.
#[tokio::test(start_paused = true)]
async fn handler_hands_on_none_one_or_many() {
    let lab = Lab::new([]);
    let job = |key: &str, outputs: &str| NewJob::new(&name("a"), key, outputs).unwrap();
    lab.engine.enqueue(vec![job("none", "0"), job("one", "1"), job("many", "250")], lab.now()).await.unwrap();
    let split = handler_fn(async |task: Task| {
        let count: usize = task.job.data.parse().unwrap();
        Answer::hands_on((0..count).map(|n| format!("{{ \"z\": {n},  \"a\": 1 }}")))
    });
    let mut builder = Runner::builder(lab.engine.clone(), lab.limiter.clone());
    for stage in chain(vec![stage("a"), StageConfig { concurrency: 50, ..stage("b") }]) {
        builder = builder.stage(stage);
    }
    let runner =
        builder.handler("a", split).handler("b", handler_fn(async |_| Answer::done())).start().await.unwrap();
    runner.finished().await.unwrap();
    let jobs = jobs(&lab.engine).await;
    let second: Vec<_> = jobs.iter().filter(|job| job.stage == name("b")).collect();
    assert_eq!(second.len(), 251);
    assert!(second.iter().all(|job| job.state == State::Done));
    assert!(second.iter().any(|job| job.key == "many>a.249" && job.data == "{ \"z\": 249,  \"a\": 1 }"));
    runner.drain(Span::ZERO).await.unwrap();
}

/// P1: the final upload of a file waits until all its chunks have left the stages before, and runs once.
#[tokio::test(start_paused = true)]
async fn stage_waits_for_the_whole_group() {
    let lab = Lab::new([]);
    let job = |n: u64| {
        let job = NewJob::new(&name("tag"), &format!("chunk-{n}"), &n.to_string()).unwrap();
        job.group(if n < 5 { "file-1" } else { "file-2" }).unwrap()
    };
    lab.engine.enqueue((0..8).map(job).collect(), lab.now()).await.unwrap();
    let tag = handler_fn(async |task: Task| {
        let n: u64 = task.job.data.parse().unwrap();
        tokio::time::sleep(Duration::from_secs(n)).await;
        let join = task.job.group.clone();
        Answer::Done { outputs: vec![Handed { join, ..Handed::new("{}") }], result: None, cost: [].into() }
    });
    let engine = lab.engine.clone();
    let upload = handler_fn(move |task: Task| {
        let counts = engine.group_counts(task.job.group.as_deref().unwrap());
        async move {
            let counts = counts.await.unwrap();
            let tag = counts.iter().find(|counts| counts.stage == name("tag")).unwrap();
            match tag.of(State::Running) + tag.of(State::Ready) {
                0 => Answer::done(),
                open => Answer::dead(format!("{open} chunks are open")),
            }
        }
    });
    let after = StageConfig { after: vec![name("tag")], ..stage("upload") };
    let mut builder = Runner::builder(lab.engine.clone(), lab.limiter.clone());
    for stage in chain(vec![stage("tag"), after]) {
        builder = builder.stage(stage);
    }
    let runner = builder.handler("tag", tag).handler("upload", upload).start().await.unwrap();
    runner.finished().await.unwrap();
    let uploads: Vec<_> =
        jobs(&lab.engine).await.into_iter().filter(|job| job.stage == name("upload")).collect();
    assert_eq!(uploads.len(), 2);
    assert!(uploads.iter().all(|job| job.state == State::Done), "{uploads:?}");
    runner.drain(Span::ZERO).await.unwrap();
}

/// P2: three tries with growing pauses, then a dead letter with the evidence of all three.
#[tokio::test(start_paused = true)]
async fn failures_are_retried_and_then_dead() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 1, lab.now()).await;
    enqueue(&lab.engine, "b", 1, lab.now()).await;
    enqueue(&lab.engine, "c", 1, lab.now()).await;
    let slow =
        |text| StageConfig { backoff: Span::from_secs(10), timeout: Span::from_secs(60), ..stage(text) };
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(slow("a"))
        .stage(slow("b"))
        .stage(slow("c"))
        .handler("a", handler_fn(async |task: Task| Answer::retry(format!("try {}", task.attempt()))))
        .handler("b", handler_fn(async |_| -> Answer { panic!("a bug in a handler") }))
        .handler("c", handler_fn(async |_| std::future::pending().await))
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let jobs = jobs(&lab.engine).await;
    assert!(jobs.iter().all(|job| job.state == State::Dead), "{jobs:?}");
    assert_eq!((jobs[0].failures, jobs[0].crashes), (3, 0));
    assert_eq!((jobs[1].failures, jobs[1].crashes), (0, 3));
    assert_eq!((jobs[2].failures, jobs[2].crashes), (3, 0));
    let evidence = lab.engine.evidence(jobs[0].id).await.unwrap();
    let errors: Vec<&str> = evidence.iter().map(|evidence| evidence.attempt.error()).collect();
    assert_eq!(errors, ["try 1", "try 2", "try 3"]);
    // Three timeouts of a minute, and pauses of 10 and 20 s.
    assert!(lab.elapsed() >= Span::from_secs(210), "{}", lab.elapsed());
    runner.drain(Span::ZERO).await.unwrap();
}

/// Draining waits for jobs that end in time, and gives the others back: no try is used.
#[tokio::test(start_paused = true)]
async fn drain_gives_claims_back() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 10, lab.now()).await;
    let started = Arc::new(AtomicUsize::new(0));
    let noted = started.clone();
    let every_other_hangs = handler_fn(move |_: Task| {
        let number = noted.fetch_add(1, Ordering::SeqCst);
        async move {
            let seconds = if number.is_multiple_of(2) { 5 } else { 500 };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Answer::done()
        }
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { concurrency: 6, ..stage("a") })
        .handler("a", every_other_hangs)
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(started.load(Ordering::SeqCst), 6);
    assert_eq!(runner.drain(Span::from_secs(30)).await.unwrap(), Drained { given_back: 3, left_open: 0 });
    let jobs = jobs(&lab.engine).await;
    let count = |state| jobs.iter().filter(|job| job.state == state).count();
    assert_eq!((count(State::Done), count(State::Ready), count(State::Running)), (3, 7, 0));
    assert!(jobs.iter().all(|job| job.failures + job.crashes == 0));
    assert!(lab.elapsed() < Span::from_secs(40), "{}", lab.elapsed());
}

/// P2: a claim is renewed while its handler works, and done jobs are purged after their retention.
#[tokio::test(start_paused = true)]
async fn claims_are_renewed_and_done_jobs_purged() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 1, lab.now()).await;
    let long = handler_fn(async |_| {
        tokio::time::sleep(Duration::from_secs(95)).await;
        Answer::done()
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig {
            visibility_timeout: Span::from_secs(30),
            timeout: Span::from_secs(100),
            retention: Span::from_hours(1),
            ..stage("a")
        })
        .handler("a", long)
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let done = jobs(&lab.engine).await;
    assert_eq!((done[0].state, done[0].claim_number, done[0].crashes), (State::Done, 1, 0));
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    assert_eq!(jobs(&lab.engine).await, []);
    runner.drain(Span::ZERO).await.unwrap();
}

/// A worker whose job is cancelled stops at the next renewal, and frees its place.
#[tokio::test(start_paused = true)]
async fn worker_of_a_cancelled_job_stops() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 2, lab.now()).await;
    let first_hangs = handler_fn(async |task: Task| {
        if task.job.key == "a-00000" {
            std::future::pending::<()>().await;
        }
        Answer::done()
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { concurrency: 1, timeout: Span::from_hours(1), ..stage("a") })
        .handler("a", first_hangs)
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let running = Filter { state: Some(State::Running), ..Filter::default() };
    let changed = lab.engine.change(running, Change::Cancel, None, 10, lab.now()).await.unwrap();
    assert_eq!(changed.jobs, 1);
    runner.finished().await.unwrap();
    let states: Vec<State> = jobs(&lab.engine).await.iter().map(|job| job.state).collect();
    assert_eq!(states, [State::Cancelled, State::Done]);
    // A third of 15 minutes.
    assert!(lab.elapsed() < Span::from_mins(6), "{}", lab.elapsed());
    runner.drain(Span::ZERO).await.unwrap();
}

/// A stage whose attempts mostly fail is paused, and the alarm is raised once.
#[tokio::test(start_paused = true)]
async fn failing_stage_is_paused_with_an_alarm() {
    #[derive(Default)]
    struct Kept(Mutex<Vec<Alarm>>);
    impl AlarmSink for Kept {
        fn raised(&self, alarm: &Alarm) {
            self.0.lock().unwrap().push(alarm.clone());
        }
        fn over(&self, _: &Alarm) {}
    }
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 200, lab.now()).await;
    let kept = Arc::new(Kept::default());
    let fails = handler_fn(async |_: Task| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Answer::retry("the vendor is down")
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { concurrency: 5, backoff: Span::from_secs(60), ..stage("a") })
        .handler("a", fails)
        .alarms(AlarmRules::default(), kept.clone())
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(runner.progress().await.unwrap().stages[0].paused);
    let raised = kept.0.lock().unwrap().clone();
    assert!(matches!(&raised[..], [Alarm::Failures { .. }]), "{raised:?}");
    assert_eq!(runner.alarms().len(), 1);
    let tried = jobs(&lab.engine).await.iter().filter(|job| job.failures > 0).count();
    assert!((20..100).contains(&tried), "{tried}");
    runner.drain(Span::ZERO).await.unwrap();
}

/// On a full disk, answers wait until there is room again, and no handler is called a second time.
#[tokio::test]
async fn full_disk_delays_answers_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap());
    let engine: Arc<dyn Engine> = file.clone();
    let limiter = tollway::Limiter::builder().build();
    enqueue(&engine, "a", 20, limiter.clock().now()).await;
    file.limit_file(1).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let noted = calls.clone();
    let large = handler_fn(move |_: Task| {
        noted.fetch_add(1, Ordering::SeqCst);
        async { Answer::hands_on([format!("\"{}\"", "x".repeat(50_000))]) }
    });
    let mut builder = Runner::builder(engine.clone(), limiter);
    for stage in chain(vec![StageConfig { concurrency: 20, ..stage("a") }, stage("b")]) {
        builder = builder.stage(stage);
    }
    let done = handler_fn(async |_| Answer::done());
    let runner = builder.handler("a", large).handler("b", done).start().await.unwrap();
    while calls.load(Ordering::SeqCst) < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stored = jobs(&engine).await.iter().filter(|job| job.stage == name("b")).count();
    assert!(stored < 20, "the disk was not full");
    file.limit_file(1 << 30).await.unwrap();
    runner.finished().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 20);
    let jobs = jobs(&engine).await;
    assert_eq!(jobs.iter().filter(|job| job.stage == name("b") && job.state == State::Done).count(), 20);
    assert!(jobs.iter().all(|job| job.failures + job.crashes == 0));
    runner.drain(Span::ZERO).await.unwrap();
}
