//! Waiting for the vendor's quota.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway_core::{Span, Subject, Timestamp};
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{JobCost, NewJob, StageConfig, State};

use super::paused::{Lab, START};
use super::{enqueue, jobs, last_attempt, name, stage};

fn takes(stage: StageConfig, amount: u64) -> StageConfig {
    StageConfig { take: JobCost::new([("adobe", "requests", amount)]).unwrap(), ..stage }
}

/// P3: 10,000 jobs, a quota for 100, an hour: no job has used a try, and none was claimed in vain.
#[tokio::test(start_paused = true)]
async fn waiting_for_quota_uses_no_try_and_no_visibility() {
    let lab = Lab::new([("adobe", "100 / hour")]);
    enqueue(&lab.engine, "a", 10_000, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(StageConfig { concurrency: 50, ..stage("a") }, 1))
        .handler("a", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3_590)).await;
    let jobs = jobs(&lab.engine).await;
    let done = jobs.iter().filter(|job| job.state == State::Done).count();
    assert_eq!(done, 100);
    for job in &jobs {
        assert_eq!((job.failures, job.crashes, job.rate_limited), (0, 0, 0), "{job:?}");
        assert_eq!(job.claim_number, u64::from(job.state == State::Done), "{job:?}");
    }
    let progress = runner.progress().await.unwrap();
    assert_eq!(progress.stages[0].waiting_until, Some(START.plus(Span::from_hours(1))));
    assert!(runner.alarms().is_empty(), "waiting for quota is no alarm: {:?}", runner.alarms());
    runner.drain(Span::ZERO).await.unwrap();
}

/// A raised limit is used within seconds, although the denial named the next hour.
#[tokio::test(start_paused = true)]
async fn raised_limit_is_used_soon() {
    let lab = Lab::new([("adobe", "1 / hour")]);
    enqueue(&lab.engine, "a", 3, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(stage("a"), 1))
        .handler("a", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    lab.limiter.replace_policies([tollway::Policy::new("adobe", ["9 / hour"]).unwrap()]).unwrap();
    runner.finished().await.unwrap();
    assert!(lab.elapsed() < Span::from_secs(75), "{}", lab.elapsed());
    runner.drain(Span::ZERO).await.unwrap();
}

/// P3: a refusal holds the policy for everybody, and uses no try.
#[tokio::test(start_paused = true)]
async fn rate_limited_holds_the_policy() {
    let lab = Lab::new([("adobe", "1000 / minute bucket")]);
    enqueue(&lab.engine, "a", 4, lab.now()).await;
    let calls: Arc<Mutex<Vec<Timestamp>>> = Arc::default();
    let (noted, clock) = (calls.clone(), lab.limiter.clock().clone());
    let refused_once = handler_fn(move |_: Task| {
        let mut calls = noted.lock().unwrap();
        calls.push(clock.now());
        let first = calls.len() == 1;
        async move { if first { Answer::rate_limited(Some(Span::from_secs(60))) } else { Answer::done() } }
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(StageConfig { concurrency: 1, tries: 1, ..stage("a") }, 1))
        .handler("a", refused_once)
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 5);
    assert!(calls[1].since(calls[0]) >= Span::from_secs(60), "{calls:?}");
    let jobs = jobs(&lab.engine).await;
    assert_eq!(jobs.iter().map(|job| (job.failures, job.rate_limited)).max(), Some((0, 1)));
    assert!(jobs.iter().all(|job| job.state == State::Done));
    runner.drain(Span::ZERO).await.unwrap();
}

/// A job's own cost is taken in place of its stage's; one that can never be granted is a dead letter, and blocks no other job.
#[tokio::test(start_paused = true)]
async fn jobs_with_costs_of_their_own() {
    let lab = Lab::new([("adobe", "10 / hour")]);
    let cost = |amount| JobCost::new([("adobe", "requests", amount)]).unwrap();
    let job = |key, amount| NewJob::new(&name("a"), key, "{}").unwrap().cost(cost(amount));
    let unknown = JobCost::new([("abode", "requests", 1)]).unwrap();
    let unknown = NewJob::new(&name("a"), "unknown", "{}").unwrap().cost(unknown);
    lab.engine
        .enqueue(vec![job("huge", 11), unknown, job("six", 6), job("three", 3)], lab.now())
        .await
        .unwrap();
    enqueue(&lab.engine, "a", 2, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(stage("a"), 1))
        .handler("a", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let jobs = jobs(&lab.engine).await;
    let states: Vec<(&str, State)> = jobs.iter().map(|job| (job.key.as_str(), job.state)).collect();
    let (dead, done, ready) = (State::Dead, State::Done, State::Ready);
    let expected = [
        ("huge", dead),
        ("unknown", dead),
        ("six", done),
        ("three", done),
        ("a-00000", done),
        ("a-00001", ready),
    ];
    assert_eq!(states, expected);
    let (error, _) = last_attempt(&lab.engine, &jobs[1]).await;
    assert!(error.contains("abode"), "{error}");
    assert_eq!(lab.limiter.usage("adobe").await.unwrap().limits[0].used, 10);
    runner.drain(Span::ZERO).await.unwrap();
}

/// What a call took in fact is settled, and a job that never began gives its place back.
#[tokio::test(start_paused = true)]
async fn actual_costs_are_settled() {
    let lab = Lab::new([("adobe", "100 / hour bucket")]);
    enqueue(&lab.engine, "a", 1, lab.now()).await;
    enqueue(&lab.engine, "b", 1, lab.now()).await;
    let cheap = handler_fn(async |_| {
        let cost = [("requests".to_owned(), 2)].into();
        Answer::Done { outputs: Vec::new(), result: None, cost }
    });
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(stage("a"), 10))
        .stage(takes(stage("b"), 10))
        .handler("a", cheap)
        .handler_that_begins("b", handler_fn(async |_| Answer::dead("not a PDF")))
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let used = lab.limiter.usage("adobe").await.unwrap().limits[0].used;
    assert_eq!(used, 2);
    runner.drain(Span::ZERO).await.unwrap();
}

/// P3: a drained runner gives back the place that it had booked: the next caller gets it.
#[tokio::test(start_paused = true)]
async fn booked_place_is_given_back() {
    let lab = Lab::new([("adobe", "6 / minute paced")]);
    enqueue(&lab.engine, "a", 3, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(stage("a"), 1))
        .handler("a", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    runner.drain(Span::ZERO).await.unwrap();
    let next = lab.limiter.take("adobe").book().await.unwrap().granted().unwrap();
    assert!(next.delay() <= Duration::from_secs(5), "{:?}", next.delay());
    let done = jobs(&lab.engine).await.iter().filter(|job| job.state == State::Done).count();
    assert_eq!(done, 1);
}

/// A stage that waits behind a later one waits for quota, too, and says so.
#[tokio::test(start_paused = true)]
async fn earlier_stage_does_not_overtake_a_later_one() {
    let lab = Lab::new([("adobe", "10 / hour")]);
    enqueue(&lab.engine, "early", 20, lab.now()).await;
    enqueue(&lab.engine, "late", 2, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .stage(takes(stage("early"), 1))
        .stage(takes(stage("late"), 6))
        .handler("early", handler_fn(async |_| Answer::done()))
        .handler("late", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let progress = runner.progress().await.unwrap();
    // Four units are left, and the second late job needs six.
    assert_eq!((progress.stages[0].done, progress.stages[1].done), (0, 1));
    assert!(progress.stages.iter().all(|stage| stage.waiting_until == Some(START.plus(Span::from_hours(1)))));
    runner.drain(Span::ZERO).await.unwrap();
}

/// P10: all stages of a pipeline take for its subject, so they share that subject's budget, and so do holds.
#[tokio::test(start_paused = true)]
async fn stages_share_the_budget_of_the_pipelines_subject() {
    let lab = Lab::new([("adobe", "4 / hour")]);
    let subject = Subject::new("adobe-account").unwrap();
    enqueue(&lab.engine, "a", 3, lab.now()).await;
    enqueue(&lab.engine, "b", 3, lab.now()).await;
    let runner = Runner::builder(lab.engine.clone(), lab.limiter.clone())
        .subject(subject)
        .stage(takes(stage("a"), 1))
        .stage(takes(stage("b"), 1))
        .handler("a", handler_fn(async |_| Answer::done()))
        .handler("b", handler_fn(async |_| Answer::done()))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let done = jobs(&lab.engine).await.iter().filter(|job| job.state == State::Done).count();
    assert_eq!(done, 4);
    let used = |usage: tollway::Usage| usage.limits[0].used;
    assert_eq!(used(lab.limiter.usage("adobe").subject("adobe-account").await.unwrap()), 4);
    assert_eq!(used(lab.limiter.usage("adobe").await.unwrap()), 0);
    runner.drain(Span::ZERO).await.unwrap();
}
