//! The order of claims, and how many run at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Handler, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{JobCost, StageConfig, State};

use super::paused::Lab;
use super::{chain, enqueue, jobs, name, stage};

type Log = Arc<Mutex<Vec<String>>>;

/// Notes stage and key of every job, and hands one on unless its stage is the last.
fn noting(log: &Log, last: bool) -> Handler {
    let log = log.clone();
    handler_fn(move |task: Task| {
        let first = task.job.key.split('>').next().unwrap_or_default().to_owned();
        log.lock().unwrap().push(format!("{} {first}", task.job.stage.as_str()));
        async move { if last { Answer::done() } else { Answer::hands_on(["{}"]) } }
    })
}

fn takes(stage: StageConfig) -> StageConfig {
    StageConfig { take: JobCost::new([("adobe", "requests", 1)]).unwrap(), ..stage }
}

/// P1, P3: with one call a second for three stages, each job leaves the pipeline before the next one enters.
#[tokio::test(start_paused = true)]
async fn late_stages_go_first() {
    let lab = Lab::new([("adobe", "1 / second paced")]);
    let log = Log::default();
    enqueue(&lab.engine, "a", 4, lab.now()).await;
    let mut builder = Runner::builder(lab.engine.clone(), lab.limiter.clone());
    for stage in chain(["a", "b", "c"].map(|text| takes(stage(text))).to_vec()) {
        builder = builder.handler(stage.name.as_str(), noting(&log, stage.next.is_none())).stage(stage);
    }
    let runner = builder.start().await.unwrap();
    runner.finished().await.unwrap();
    let expected: Vec<String> =
        (0..4).flat_map(|n| ["a", "b", "c"].map(|stage| format!("{stage} a-{n:05}"))).collect();
    assert_eq!(*log.lock().unwrap(), expected);
    // Twelve calls at one a second: the first at once.
    assert!(lab.elapsed() >= Span::from_secs(11) && lab.elapsed() < Span::from_secs(13), "{}", lab.elapsed());
    runner.drain(Span::ZERO).await.unwrap();
}

/// A stage that takes nothing does not wait behind one that waits for quota.
#[tokio::test(start_paused = true)]
async fn stage_without_a_cost_is_not_delayed_by_quota() {
    let lab = Lab::new([("adobe", "1 / hour")]);
    let log = Log::default();
    enqueue(&lab.engine, "free", 20, lab.now()).await;
    enqueue(&lab.engine, "paid", 2, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(stage("free"))
        .stage(takes(stage("paid")))
        .handler("free", noting(&log, true))
        .handler("paid", noting(&log, true))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(log.lock().unwrap().len(), 21);
    let progress = runner.progress().await.unwrap();
    assert!(
        progress.stages[1].waiting_until.is_some_and(|until| until.since(lab.now()) > Span::from_mins(50))
    );
    runner.drain(Span::ZERO).await.unwrap();
}

/// P5: a stage runs as many jobs as it may, the pipeline as many as it may, and both change while it runs.
#[tokio::test(start_paused = true)]
async fn concurrency_is_kept_and_changes_while_it_runs() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 400, lab.now()).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now_running, most_running) = (running.clone(), most.clone());
    let slow = handler_fn(move |_: Task| {
        let (running, most) = (running.clone(), most.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Answer::done()
        }
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(StageConfig { concurrency: 5, ..stage("a") })
        .handler("a", slow)
        .start()
        .await
        .unwrap();
    let seconds = |n: u64| tokio::time::sleep(std::time::Duration::from_millis(n * 1_000 + 500));
    seconds(5).await;
    assert_eq!(most_running.load(Ordering::SeqCst), 5);
    runner.set_concurrency(&name("a"), Some(20)).await.unwrap();
    seconds(5).await;
    assert_eq!(most_running.load(Ordering::SeqCst), 20);
    runner.set_total(Some(3));
    seconds(3).await;
    most_running.store(0, Ordering::SeqCst);
    seconds(3).await;
    assert_eq!(most_running.load(Ordering::SeqCst), 3);
    runner.pause(&name("a")).await.unwrap();
    seconds(3).await;
    assert_eq!(now_running.load(Ordering::SeqCst), 0);
    assert!(runner.progress().await.unwrap().stages[0].paused);
    runner.set_total(None);
    runner.resume(&name("a")).await.unwrap();
    runner.finished().await.unwrap();
    assert!(jobs(&lab.engine).await.iter().all(|job| job.state == State::Done));
    runner.drain(Span::ZERO).await.unwrap();
}
