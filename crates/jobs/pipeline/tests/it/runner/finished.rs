//! When a runner has nothing left to do: paused stages, stages that it lacks, and runners of some stages.

use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Handler, Task, handler_fn};
use tollway_pipeline::run::progress::Stands;
use tollway_pipeline::run::{RunError, Runner};
use tollway_pipeline::{NewJob, StageChange, StageConfig, State};

use super::paused::Lab;
use super::{chain, enqueue, jobs, name, stage};

fn done() -> Handler {
    handler_fn(async |_: Task| Answer::done())
}

fn failing() -> Handler {
    handler_fn(async |_: Task| {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        Answer::retry("the page cannot be read")
    })
}

async fn counts(lab: &Lab, stage: &str, state: State) -> usize {
    let jobs = jobs(&lab.engine).await;
    jobs.iter().filter(|job| job.stage == name(stage) && job.state == state).count()
}

/// A stage that the runner paused itself, because too many of its jobs failed, keeps no runner waiting for ever.
#[tokio::test(start_paused = true)]
async fn stage_paused_by_failures_ends_the_runner() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 300, lab.now()).await;
    enqueue(&lab.engine, "b", 3, lab.now()).await;
    let config = StageConfig { concurrency: 2, tries: 1, ..stage("a") };
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(config)
        .stage(stage("b"))
        .handler("a", failing())
        .handler("b", done())
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let progress = runner.progress().await.unwrap();
    assert!(progress.stages[0].paused && progress.stages[0].ready > 0, "{progress:?}");
    assert_eq!(progress.stages[1].done, 3, "the other stage is done");
    assert_eq!(progress.stands, Some(Stands::Paused(vec![name("a")])));
    assert_eq!(progress.eta, None, "no end is in sight");
    // Resumed, its jobs count again.
    runner.resume(&name("a")).await.unwrap();
    let again = tokio::time::timeout(std::time::Duration::from_secs(2), runner.finished()).await;
    assert!(again.is_err(), "it works on them");
    runner.drain(Span::ZERO).await.unwrap();
}

/// A stage that an operator has paused is waited for: it will be resumed.
#[tokio::test(start_paused = true)]
async fn stage_paused_by_an_operator_is_waited_for() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 3, lab.now()).await;
    let builder = Runner::builder(lab.engine.clone(), lab.limiter.clone()).stage(stage("a"));
    let paused = StageChange { paused: Some(true), ..StageChange::default() };
    lab.engine.set_stage(&name("a"), paused, lab.now()).await.unwrap();
    let runner = builder.handler("a", done()).start().await.unwrap();
    let waits = tokio::time::timeout(std::time::Duration::from_secs(60), runner.finished()).await;
    assert!(waits.is_err());
    runner.resume(&name("a")).await.unwrap();
    runner.finished().await.unwrap();
    assert_eq!(counts(&lab, "a", State::Done).await, 3);
}

/// Jobs of a stage that was renamed are named, and keep no runner waiting.
#[tokio::test(start_paused = true)]
async fn jobs_of_a_stage_that_the_config_lacks_are_named() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "autotag", 4, lab.now()).await;
    enqueue(&lab.engine, "tag", 2, lab.now()).await;
    let builder = Runner::builder(lab.engine.clone(), lab.limiter.clone()).stage(stage("tag"));
    let runner = builder.handler("tag", done()).start().await.unwrap();
    runner.finished().await.unwrap();
    let progress = runner.progress().await.unwrap();
    let left: Vec<_> = progress.unlisted.iter().map(|left| (left.stage.as_str(), left.open())).collect();
    assert_eq!((left, progress.stages[0].done), (vec![("autotag", 4)], 2));
    runner.drain(Span::ZERO).await.unwrap();
}

/// An upload waits for chunks that are still in the stage under its old name.
#[tokio::test(start_paused = true)]
async fn groups_wait_for_jobs_of_a_stage_that_was_renamed() {
    let lab = Lab::new([]);
    let after = |names: &[&str]| names.iter().map(|text| name(text)).collect::<Vec<_>>();
    let old = StageChange { after: Some(after(&["autotag"])), ..StageChange::default() };
    lab.engine.set_stage(&name("upload"), old, lab.now()).await.unwrap();
    let job = |stage: &str, key: &str| NewJob::new(&name(stage), key, "{}").unwrap().group("g").unwrap();
    lab.engine.enqueue(vec![job("autotag", "1"), job("upload", "u")], lab.now()).await.unwrap();
    let start = || {
        let builder = Runner::builder(lab.engine.clone(), lab.limiter.clone());
        let upload = StageConfig { after: after(&["tag"]), ..stage("upload") };
        builder.stage(stage("tag")).stage(upload).handler("tag", done()).handler("upload", done()).start()
    };
    let runner = start().await.unwrap();
    runner.finished().await.unwrap();
    assert_eq!(counts(&lab, "upload", State::Held).await, 1, "its group is not complete");
    assert_eq!(runner.progress().await.unwrap().stands, Some(Stands::Held(1)));
    let moved = lab.engine.move_to_stage(&name("autotag"), &name("tag"), None, 9, lab.now()).await.unwrap();
    assert_eq!((moved.jobs, counts(&lab, "upload", State::Held).await), (1, 1));
    runner.finished().await.unwrap();
    assert_eq!(counts(&lab, "upload", State::Done).await, 1);
    runner.drain(Span::ZERO).await.unwrap();
    let again = start().await.unwrap();
    let settings = lab.engine.stages().await.unwrap();
    let upload = settings.iter().find(|settings| settings.stage == name("upload")).unwrap();
    assert_eq!(upload.after, after(&["tag"]), "a stage without jobs is forgotten");
    again.drain(Span::ZERO).await.unwrap();
}

/// One service for each stage: each ends when its stage is done and no stage before it has jobs.
#[tokio::test(start_paused = true)]
async fn runner_of_one_stage_works_on_it_alone() {
    let lab = Lab::new([]);
    enqueue(&lab.engine, "a", 3, lab.now()).await;
    let start = |only: &'static str| {
        let mut builder = Runner::builder(lab.engine.clone(), lab.limiter.clone());
        for config in chain(["a", "b", "c"].map(stage).to_vec()) {
            builder = builder.stage(config);
        }
        // Other stages need no handler here.
        builder.only([name(only)]).handler(only, handler_fn(async |_: Task| Answer::hands_on(["{}"]))).start()
    };
    let second = start("b").await.unwrap();
    let waits = tokio::time::timeout(std::time::Duration::from_secs(30), second.finished()).await;
    assert!(waits.is_err(), "jobs will come from the stage before");
    assert_eq!(counts(&lab, "a", State::Ready).await, 3, "another runner's");
    let first = start("a").await.unwrap();
    first.finished().await.unwrap();
    second.finished().await.unwrap();
    assert_eq!((counts(&lab, "b", State::Done).await, counts(&lab, "c", State::Ready).await), (3, 3));
    let unknown = start("x").await;
    assert!(matches!(unknown, Err(RunError::UnknownStage { stage }) if stage == "x"));
    first.drain(Span::ZERO).await.unwrap();
    second.drain(Span::ZERO).await.unwrap();
}
