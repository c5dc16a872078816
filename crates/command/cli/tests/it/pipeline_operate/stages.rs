//! Pausing, resuming, draining, and how many jobs run at a time.

use tollway_pipeline::{Conclusion, State};

use super::lab::{Lab, job, signal, until};

#[test]
fn pause_and_resume_change_stages_and_count_their_jobs() {
    let lab = Lab::new();
    // Also before the first job.
    assert_eq!(lab.ok(&["pause", "extract"]), "extract is paused: 0 jobs ready, none runs\n");
    lab.jobs().add(vec![job("autotag", "1"), job("autotag", "2"), job("extract", "3")]);
    let jobs = lab.jobs();
    assert!(jobs.paused("extract") && jobs.claim("extract", 1).is_empty());
    jobs.claim("autotag", 1);
    drop(jobs);
    let paused = lab.ok(&["pause"]);
    assert_eq!(
        paused,
        "autotag is paused: 1 job ready, 1 job still to end\n\
         extract is paused: 1 job ready, none runs\n\
         upload is paused: 0 jobs ready, none runs\n"
    );
    assert_eq!(lab.ok(&["resume", "extract"]), "extract goes on: 1 job ready\n");
    assert_eq!(
        lab.json(&["resume"])["stages"][1],
        serde_json::json!({
            "stage": "extract", "paused": false, "ready": 1, "running": 0,
        })
    );
    assert!(!lab.jobs().paused("autotag"));
    let (exit, _, error) = lab.run(&["pause", "extrakt"]);
    assert_eq!(exit, 66);
    assert!(error.contains("no stage \"extrakt\"") && error.contains("autotag, extract, upload"), "{error}");
}

/// P5: concurrency per stage, changeable while it runs.
#[test]
fn concurrency_is_changed_and_follows_the_config_again() {
    let lab = Lab::new();
    assert_eq!(
        lab.ok(&["concurrency", "extract", "80"]),
        "extract  0 running, at most 80  (50 in the config)\n"
    );
    let running = lab.running();
    assert_eq!(running.wait(running.engine.stages())[0].concurrency, Some(80));
    assert_eq!(lab.json(&["concurrency"])["stages"][1]["concurrency"], 80);
    assert_eq!(
        lab.ok(&["concurrency", "extract", "config"]),
        "extract  0 running, at most 50, as in the config\n"
    );
    assert_eq!(running.wait(running.engine.stages())[0].concurrency, None);
    for wrong in [&["concurrency", "extract"][..], &["concurrency", "extract", "0"]] {
        assert_eq!(lab.run(wrong).0, 2, "{wrong:?}");
    }
    assert_eq!(lab.run(&["concurrency", "x", "9"]).0, 66);
}

#[test]
fn drain_waits_for_running_jobs() {
    let lab = Lab::new();
    let jobs = lab.running();
    jobs.add(vec![job("autotag", "1"), job("autotag", "2")]);
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    let (exit, _, error) = lab.run(&["drain", "--timeout", "1ms"]);
    assert_eq!(exit, 75);
    assert!(error.contains("paused; 1 job still running") && error.contains("resume"), "{error}");
    assert!(jobs.paused("autotag") && jobs.claim("autotag", 1).is_empty());

    let stderr = lab.home.path().join("stderr");
    let mut draining = lab.spawn(&["drain"], &stderr);
    until("it shows running jobs", || {
        std::fs::read_to_string(&stderr).unwrap().contains("1 job still running")
    });
    assert_eq!(draining.try_wait().unwrap(), None);
    jobs.finish(claimed, Conclusion::Done { outputs: Vec::new(), result: None });
    assert_eq!(draining.wait().unwrap().code(), Some(0));
    assert!(jobs.paused("autotag"), "it stays paused");
    assert_eq!(jobs.in_state(State::Ready).len(), 1);
}

#[test]
fn interrupted_drain_leaves_stages_paused_and_says_so() {
    let lab = Lab::new();
    let jobs = lab.running();
    jobs.add(vec![job("autotag", "1")]);
    jobs.claim("autotag", 1);
    let stderr = lab.home.path().join("stderr");
    let mut draining = lab.spawn(&["drain"], &stderr);
    until("it waits", || std::fs::read_to_string(&stderr).unwrap().contains("still running"));
    signal(&draining, "INT");
    assert_eq!(draining.wait().unwrap().code(), Some(130));
    let said = std::fs::read_to_string(&stderr).unwrap();
    assert!(said.contains("all stages stay paused") && said.contains("tollway pipeline resume"), "{said}");
    assert!(jobs.paused("upload"));
}

/// Claims of a process that died do not keep it waiting.
#[test]
fn drain_of_a_pipeline_that_no_process_runs_ends_at_once() {
    let lab = Lab::new();
    let jobs = lab.jobs();
    jobs.add(vec![job("autotag", "1")]);
    jobs.claim("autotag", 1);
    drop(jobs);
    let (exit, stdout, stderr) = lab.run(&["drain"]);
    assert_eq!(exit, 0);
    assert!(
        stdout.contains("no job runs") && stderr.contains("1 job will be tried again"),
        "{stdout}{stderr}"
    );
}
