//! Handlers that are worse than those of `subprocess.rs`: stubborn ones, and ones that take other jobs with them.

use tollway_pipeline::{CommandConfig, StageConfig, State};

use super::last_attempt;
use super::subprocess::{HANGS, Lab, are_gone, command, with};

/// P2: a handler that ignores SIGTERM is killed after five seconds, and so is what it forked. Until then its job is its own.
#[tokio::test]
async fn handler_that_ignores_the_signal_to_end_is_killed() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let log = lab.log().display().to_string();
    let script = format!("trap '' TERM; sleep 1000 & echo $$ $! >> {log}; wait");
    let stage = StageConfig { timeout: HANGS, ..with(CommandConfig::new(["sh", "-c", &script])) };
    let jobs = lab.run(stage).await;
    assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 1, 0));
    assert_eq!(last_attempt(&lab.engine, &jobs[0]).await.0, format!("no answer within {HANGS}"));
    let pids = std::fs::read_to_string(lab.log()).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2);
    are_gone(&pids).await;
}

/// P2: the same for a process of its own for each job.
#[tokio::test]
async fn hanging_process_of_one_job_is_ended() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let script = format!("echo $$ >> {}; sleep 1000", lab.log().display());
    let each = CommandConfig { each: true, ..CommandConfig::new(["sh", "-c", &script]) };
    let jobs = lab.run(StageConfig { timeout: HANGS, ..with(each) }).await;
    assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 1, 0));
    are_gone(&std::fs::read_to_string(lab.log()).unwrap()).await;
}

/// Garbage ends the process: every job it had is a crash, and none a failure.
#[tokio::test]
async fn garbage_crashes_every_job_of_its_process() {
    let lab = Lab::new();
    lab.enqueue(2).await;
    let mut stage = lab.stage("garbage_of_two");
    command(&mut stage).slots = 2;
    let jobs = lab.run(stage).await;
    for job in &jobs {
        assert_eq!((job.state, job.failures, job.crashes), (State::Dead, 0, 1), "{job:?}");
        let (error, detail) = last_attempt(&lab.engine, job).await;
        assert!(
            error.contains("broke the protocol") && detail.starts_with("Segmentation"),
            "{error} {detail}"
        );
    }
}

/// P2: the third crash of a job is its end, whatever its tries.
#[tokio::test]
async fn third_crash_is_a_dead_letter() {
    let lab = Lab::new();
    lab.enqueue(1).await;
    let jobs = lab.run(StageConfig { tries: 1, crashes: 3, ..lab.stage("exit") }).await;
    assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 0, 3));
    assert_eq!(jobs[0].claim_number, 3);
}

/// A handler that eats memory is ended alone: another stage goes on, and so does the pipeline.
#[tokio::test]
async fn handler_that_eats_memory_ends_alone() {
    let lab = Lab::new();
    lab.enqueue(6).await;
    let mut stage = lab.stage("memory_sometimes");
    command(&mut stage).memory_max = Some(300 << 20);
    let jobs = lab.run(stage).await;
    let eaten = |key: &str| key.ends_with('3');
    for job in &jobs {
        let expected = if eaten(&job.key) { (State::Dead, 0, 1) } else { (State::Done, 0, 0) };
        assert_eq!((job.state, job.failures, job.crashes), expected, "{job:?}");
    }
}
