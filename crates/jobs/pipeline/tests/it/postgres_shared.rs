//! Several engines on one Postgres, as processes on several machines have them; and a server that is restarted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_pipeline::{
    Attempt, Cause, ClaimRequest, Conclusion, Engine, EngineError, Enqueued, Filter, Finished, Job, NewJob,
    Output, PostgresEngine, StageChange, State, bounds,
};
use tollway_testkit::servers::PostgresServer;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

fn stage(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn engine(server: &PostgresServer, schema: &str) -> Arc<PostgresEngine> {
    Arc::new(PostgresEngine::open(&format!("{}?schema={schema}&connections=3", server.url())).unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn all_jobs(engine: &PostgresEngine) -> Vec<Job> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = engine.scan(Filter::default(), after, 1_000).await.unwrap();
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            return jobs;
        }
    }
}

/// The counters say what a count of the jobs says.
async fn assert_counts_are_right(engine: &PostgresEngine, jobs: &[Job]) {
    for counts in engine.counts().await.unwrap() {
        for state in State::ALL {
            let there = jobs.iter().filter(|job| job.stage == counts.stage && job.state == state).count();
            assert_eq!(counts.of(state), there as u64, "{state} in {:?}", counts.stage);
        }
        let entered = jobs.iter().filter(|job| job.stage == counts.stage).count();
        assert_eq!(counts.events.enqueued, entered as u64);
    }
}

/// Claims jobs of both stages until none is left, and records (job, claim number) of each.
async fn work(engine: Arc<PostgresEngine>, worker: String, left: Arc<AtomicUsize>) -> Vec<(u64, u64, bool)> {
    let mut claims = Vec::new();
    while left.load(Ordering::SeqCst) > 0 {
        for from in ["upload", "b", "a"] {
            let request = ClaimRequest::new(&stage(from), &worker, Span::from_mins(15)).count(3);
            for claimed in engine.claim(request, NOW).await.unwrap() {
                let first_try = claimed.job.failures == 0;
                let fails = first_try && claimed.job.id.get() % 5 == 0;
                let conclusion = match from {
                    _ if fails => {
                        Conclusion::Again { at: NOW, attempt: Attempt::new(Cause::Failure, "timeout") }
                    }
                    "a" => Conclusion::Done {
                        outputs: vec![Output::new(&stage("b"), "1").unwrap(); 2],
                        result: None,
                    },
                    "b" => {
                        let group = claimed.job.group.clone().unwrap();
                        let upload = Output::new(&stage("upload"), "1").unwrap().join(&group).unwrap();
                        Conclusion::Done { outputs: vec![upload], result: None }
                    }
                    _ => Conclusion::Done { outputs: vec![], result: None },
                };
                let finished = engine.finish(claimed.claim.clone(), conclusion, NOW).await.unwrap();
                assert!(matches!(finished, Finished::Committed { .. }), "{finished:?}");
                claims.push((claimed.job.id.get(), claimed.claim.number, !fails));
                if from == "upload" && !fails {
                    left.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    }
    claims
}

/// P4, P8: workers of two engines get every job once, each group is uploaded once after all its chunks, and the counters are
/// exact.
#[test]
fn two_engines_share_the_jobs() {
    const GROUPS: usize = 30;
    let server = PostgresServer::start();
    let (one, two) = (engine(&server, "shared"), engine(&server, "shared"));
    runtime().block_on(async {
        let after = Some(vec![stage("a"), stage("b")]);
        one.set_stage(&stage("upload"), StageChange { after, ..StageChange::default() }, NOW).await.unwrap();
        // Both enqueue the same keys at the same time, in opposite order.
        let jobs = |reverse: bool| {
            let mut jobs: Vec<NewJob> = (0..GROUPS * 8)
                .map(|n| NewJob::new(&stage("a"), &format!("k{n}"), "1").unwrap())
                .enumerate()
                .map(|(n, job)| job.group(&format!("g{}", n % GROUPS)).unwrap())
                .collect();
            if reverse {
                jobs.reverse();
            }
            jobs
        };
        let (first, second) = tokio::join!(one.enqueue(jobs(false), NOW), two.enqueue(jobs(true), NOW));
        let enqueued: Vec<Enqueued> = [first.unwrap(), second.unwrap()].concat();
        let new = enqueued.iter().filter(|enqueued| matches!(enqueued, Enqueued::New(_))).count();
        assert_eq!((new, enqueued.len()), (GROUPS * 8, GROUPS * 16));

        let left = Arc::new(AtomicUsize::new(GROUPS));
        let workers: Vec<_> = (0..16)
            .map(|n| {
                let engine = if n % 2 == 0 { one.clone() } else { two.clone() };
                tokio::spawn(work(engine, format!("w{n}"), left.clone()))
            })
            .collect();
        let mut claims: Vec<(u64, u64, bool)> = Vec::new();
        for worker in workers {
            claims.extend(tokio::time::timeout(Duration::from_secs(120), worker).await.unwrap().unwrap());
        }
        let mut once: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for (job, number, _) in &claims {
            *once.entry((*job, *number)).or_default() += 1;
        }
        assert!(once.values().all(|times| *times == 1), "a claim was given twice");
        let jobs = all_jobs(&two).await;
        assert!(jobs.iter().all(|job| job.state == State::Done), "a job was left");
        let done = claims.iter().filter(|(.., done)| *done).count();
        assert_eq!((jobs.len(), done), (GROUPS * (8 + 16 + 1), GROUPS * (8 + 16 + 1)));
        let first_upload = |group: &Option<String>| {
            jobs.iter().find(|job| job.stage == stage("upload") && job.group == *group)
        };
        for job in &jobs {
            let upload = first_upload(&job.group).unwrap();
            assert!(upload.key == *job.group.as_ref().unwrap(), "one upload for each group");
        }
        assert_counts_are_right(&one, &jobs).await;
        let completions = server.query("SELECT count(*), count(DISTINCT job) FROM shared.completions");
        assert_eq!(completions, format!("{0}|{0}", jobs.len()));
    });
}

/// A group's last job leaves while another process hands a job to the stage that waits: it is never held for good.
#[test]
fn groups_that_leave_and_arrive_at_once_are_released() {
    let server = PostgresServer::shared();
    let (one, two) = (engine(server, "groups"), engine(server, "groups"));
    runtime().block_on(async {
        let after = Some(vec![stage("a")]);
        one.set_stage(&stage("b"), StageChange { after, ..StageChange::default() }, NOW).await.unwrap();
        for round in 0..100 {
            let group = format!("g{round}");
            let job = NewJob::new(&stage("a"), &group, "1").unwrap().group(&group).unwrap();
            one.enqueue(vec![job], NOW).await.unwrap();
            let request = ClaimRequest::new(&stage("a"), "w", Span::from_mins(15));
            let claimed = one.claim(request, NOW).await.unwrap().remove(0);
            let arrives = NewJob::new(&stage("b"), &group, "1").unwrap().group(&group).unwrap();
            let (left, arrived) = tokio::join!(
                one.finish(claimed.claim, Conclusion::Done { outputs: vec![], result: None }, NOW),
                two.enqueue(vec![arrives], NOW)
            );
            left.unwrap();
            arrived.unwrap();
        }
        let request = ClaimRequest::new(&stage("b"), "w", Span::from_mins(15)).count(1_000);
        assert_eq!(two.claim(request, NOW).await.unwrap().len(), 100);
    });
}

/// The most outputs that a job may hand on, each in a group of its own, to a stage that waits for groups.
#[test]
fn largest_hand_off_fits_one_transaction() {
    let engine = engine(PostgresServer::shared(), "largest");
    runtime().block_on(async {
        let after = Some(vec![stage("a")]);
        engine.set_stage(&stage("b"), StageChange { after, ..StageChange::default() }, NOW).await.unwrap();
        engine.enqueue(vec![NewJob::new(&stage("a"), "file", "1").unwrap()], NOW).await.unwrap();
        let request = ClaimRequest::new(&stage("a"), "w", Span::from_mins(15));
        let claimed = engine.claim(request, NOW).await.unwrap().remove(0);
        let output = |n| Output::new(&stage("b"), "1").unwrap().group(&format!("g{n}")).unwrap();
        let outputs: Vec<Output> = (0..bounds::OUTPUTS_MAX).map(output).collect();
        let finished = engine.finish(claimed.claim, Conclusion::Done { outputs, result: None }, NOW).await;
        assert_eq!(finished, Ok(Finished::Committed { outputs: bounds::OUTPUTS_MAX, joined: 0 }));
        let counts = engine.counts().await.unwrap();
        let ready = counts.iter().find(|counts| counts.stage == stage("b")).unwrap().of(State::Ready);
        assert_eq!(ready, bounds::OUTPUTS_MAX as u64);
    });
}

/// One wrong hand-off in a shared transaction fails alone.
#[test]
fn a_wrong_operation_does_not_fail_those_that_share_its_transaction() {
    let server = PostgresServer::shared();
    let url = format!("{}?schema=alone&connections=1", server.url());
    let engine = Arc::new(PostgresEngine::open(&url).unwrap());
    runtime().block_on(async {
        let jobs = (0..50).map(|n| NewJob::new(&stage("a"), &format!("k{n}"), "1").unwrap()).collect();
        engine.enqueue(jobs, NOW).await.unwrap();
        // A caller has taken the key of an output.
        engine.enqueue(vec![NewJob::new(&stage("b"), "k7>a.0", "1").unwrap()], NOW).await.unwrap();
        let request = ClaimRequest::new(&stage("a"), "w", Span::from_mins(15)).count(50);
        let claimed = engine.claim(request, NOW).await.unwrap();
        let outputs = vec![Output::new(&stage("b"), "1").unwrap()];
        let answers: Vec<_> = claimed
            .iter()
            .map(|claimed| {
                let conclusion = Conclusion::Done { outputs: outputs.clone(), result: None };
                engine.finish(claimed.claim.clone(), conclusion, NOW)
            })
            .collect();
        for (claimed, answer) in claimed.iter().zip(answers) {
            match answer.await {
                Ok(finished) => assert_eq!(finished, Finished::Committed { outputs: 1, joined: 0 }),
                Err(error) => {
                    assert_eq!(claimed.job.key, "k7");
                    assert!(error.message.contains("k7>a.0") && error.retry == Retry::Useless, "{error}");
                }
            }
        }
        let jobs = all_jobs(&engine).await;
        assert_counts_are_right(&engine, &jobs).await;
        let done = jobs.iter().filter(|job| job.state == State::Done).count();
        assert_eq!((done, jobs.len()), (49, 100));
    });
}

/// Repeats a call until it is answered. Every error on the way may be retried.
async fn until_answered<T>(call: impl Fn() -> tollway_pipeline::EngineAnswer<T>, errors: &AtomicUsize) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(EngineError { retry: Retry::Useless, message, .. }) => panic!("not to be retried: {message}"),
            Err(error) => {
                assert!(!error.message.is_empty());
                errors.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// P4: a server that is killed and started again in the middle: errors that may be retried, and nothing is lost or done
/// twice.
#[test]
fn restarted_server_loses_nothing() {
    const JOBS: u64 = 400;
    let server = Arc::new(PostgresServer::start());
    let engine = engine(&server, "restarted");
    runtime().block_on(async {
        let (errors, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (engine, errors, finished) = (engine.clone(), errors.clone(), finished.clone());
                tokio::spawn(async move {
                    for n in 0..JOBS / 4 {
                        // A stage for each, so that a claim whose answer was lost is not waited for.
                        let (from, key) = (stage(&format!("s{worker}")), format!("{worker}-{n}"));
                        let job = || vec![NewJob::new(&from, &key, "1").unwrap()];
                        until_answered(|| engine.enqueue(job(), NOW), &errors).await;
                        let request = || ClaimRequest::new(&from, "w", Span::from_mins(15));
                        let claimed = until_answered(|| engine.claim(request(), NOW), &errors).await;
                        for claimed in claimed {
                            let outputs = vec![Output::new(&stage("b"), "1").unwrap()];
                            let done = || Conclusion::Done { outputs: outputs.clone(), result: None };
                            let answer =
                                until_answered(|| engine.finish(claimed.claim.clone(), done(), NOW), &errors);
                            assert_ne!(answer.await, Finished::Late);
                            finished.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        for part in [4, 12] {
            while finished.load(Ordering::SeqCst) < part {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let server = server.clone();
            tokio::task::spawn_blocking(move || server.restart()).await.unwrap();
        }
        for worker in workers {
            tokio::time::timeout(Duration::from_secs(120), worker).await.unwrap().unwrap();
        }
        assert!(errors.load(Ordering::SeqCst) > 0, "the restarts were noticed");
        let jobs = all_jobs(&engine).await;
        let (outputs, entered): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(|job| job.stage == stage("b"));
        let done = entered.iter().filter(|job| job.state == State::Done).count();
        assert_eq!((entered.len() as u64, done), (JOBS, finished.load(Ordering::SeqCst)));
        assert_eq!(outputs.len(), done, "one output for each done job");
        // Claims whose answer was lost expire, and are claimed again.
        let abandoned = engine.abandon(None, NOW).await.unwrap();
        assert_eq!(done as u64 + abandoned, JOBS);
        assert_counts_are_right(&engine, &jobs).await;
    });
}

/// A server that cannot be reached is an error that may be retried, within seconds.
#[test]
fn unreachable_server_is_a_retryable_error() {
    let engine = PostgresEngine::open("postgres://postgres@127.0.0.1:1/postgres").unwrap();
    let error = runtime().block_on(engine.counts()).unwrap_err();
    assert_eq!((error.fault, error.retry), (tollway_pipeline::EngineFault::Network, Retry::Safe), "{error}");
}

/// Tables of a newer version are left alone.
#[test]
fn newer_tables_are_refused() {
    let server = PostgresServer::shared();
    let engine_one = engine(server, "newer");
    let runtime = runtime();
    runtime.block_on(engine_one.counts()).unwrap();
    server.query("UPDATE newer.pipeline_version SET version = 99");
    let error = runtime.block_on(engine(server, "newer").counts()).unwrap_err();
    assert!(error.retry == Retry::Useless && error.message.contains("version 99"), "{error}");
}
