//! Changes by filter: cancel and prioritize.

use tollway_pipeline::State;

use super::lab::{Lab, job};

fn filled() -> Lab {
    let lab = Lab::new();
    let jobs = lab.jobs();
    jobs.add(vec![job("autotag", "run").group("g").unwrap()]);
    jobs.claim("autotag", 1);
    jobs.add((0..1_500).map(|n| job("autotag", &n.to_string()).group("g").unwrap()).take(1_000).collect());
    jobs.add((1_000..1_500).map(|n| job("extract", &n.to_string()).group("h").unwrap()).collect());
    drop(jobs);
    lab
}

#[test]
fn cancel_asks_and_goes_in_steps() {
    let lab = filled();
    let (exit, _, error) = lab.run(&["cancel"]);
    assert_eq!(exit, 2);
    assert!(error.contains("which jobs?") && error.contains("--all"), "{error}");
    assert_eq!(lab.run(&["cancel", "--all", "--group", "g"]).0, 2);
    let dry = lab.ok(&["cancel", "--group", "g", "--dry-run"]);
    assert_eq!(dry, "would cancel 1,001 jobs: 1,000 ready, 1 running\n");
    let (exit, _, error) = lab.run(&["cancel", "--group", "g"]);
    assert_eq!(exit, 2);
    assert!(error.contains("cannot ask without a terminal") && error.contains("--yes"), "{error}");
    assert_eq!(lab.jobs().in_state(State::Cancelled).len(), 0);
    assert_eq!(lab.ok(&["cancel", "--group", "g", "--state", "running", "--yes"]), "cancelled 1 job\n");
    assert_eq!(lab.json(&["cancel", "--all", "--yes"])["changed"], 1_500);
    assert_eq!(lab.ok(&["cancel", "--all", "--yes"]), "no jobs match\n");
    assert_eq!(lab.run(&["cancel", "--all", "--state", "done"]).0, 2);
}

#[test]
fn prioritized_jobs_are_claimed_first() {
    let lab = filled();
    assert_eq!(lab.ok(&["prioritize", "-5", "--stage", "autotag"]), "set priority -5 for 1,001 jobs\n");
    assert_eq!(
        lab.ok(&["prioritize", "7", "--key", "999", "--dry-run"]),
        "would set priority 7 for 1 job: 1 ready\n"
    );
    // Its other names, beside the process that has the jobs.
    let jobs = lab.running();
    assert_eq!(lab.ok(&["reprioritise", "7", "--key", "999"]), "set priority 7 for 1 job\n");
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    assert_eq!((claimed.job.key.as_str(), claimed.job.priority), ("999", 7));
    assert_eq!(jobs.claim("extract", 1)[0].job.priority, 0);
}
