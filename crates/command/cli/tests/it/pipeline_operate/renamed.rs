//! Stages that were renamed, and one service for each stage.

use super::lab::{Lab, job};

/// `autotag` was renamed to `tag`.
const RENAMED: &str = r#"
    [pipelines.pdf]
    engine = "sqlite:pdf.db"
    stages = [
        { name = "tag", handler = { command = ["true"], each = true } },
        { name = "extract", handler = { command = ["true"], each = true } },
    ]
"#;

fn renamed() -> Lab {
    let lab = Lab::with_config(RENAMED);
    let jobs = lab.jobs();
    jobs.kill(job("autotag", "dead"), "autotag", "HTTP 500", "");
    jobs.add(vec![job("autotag", "1"), job("autotag", "2"), job("tag", "2"), job("extract", "3")]);
    drop(jobs);
    lab
}

/// No job is out of sight: `status`, `run` and `doctor` name the stage, its jobs and the command.
#[test]
fn stage_that_the_config_lacks_is_named_everywhere() {
    let lab = renamed();
    let status = lab.ok(&["status"]);
    assert!(
        status.contains("autotag has 3 jobs (2 ready, 1 dead), and is not in the config")
            && status.contains("tollway pipeline move --from autotag --to STAGE"),
        "{status}"
    );
    assert_eq!(lab.json(&["status"])["not_in_config"][0]["ready"], 2);
    assert_eq!(lab.run(&["status", "--check"]).0, 1);
    let (exit, said, log) = lab.run(&["run"]);
    assert_eq!(exit, 65, "{said}{log}");
    assert!(log.contains("autotag has 3 jobs") && log.contains("move --from autotag"), "{log}");
    assert!(!said.contains("all jobs are done") && said.contains("3 jobs in autotag"), "{said}");
    let status = lab.ok(&["status"]);
    assert!(!status.contains("all jobs are done"), "{status}");
    let (exit, said, _) = lab.home.run(&["doctor"]);
    assert_eq!(exit, 1);
    assert!(said.contains("[stage-not-in-config]") && said.contains("move --from autotag"), "{said}");
    // Filters know it, too.
    assert_eq!(lab.json(&["dead", "list", "--stage", "autotag"])["found"], 1);
}

#[test]
fn move_brings_jobs_to_the_new_name() {
    let lab = renamed();
    let dry = lab.ok(&["move", "--from", "autotag", "--to", "tag", "--dry-run"]);
    assert_eq!(dry, "would move 3 jobs from autotag to tag: 2 ready, 1 dead\n");
    let (exit, said, hint) = lab.run(&["move", "--from", "autotag", "--to", "tag"]);
    assert_eq!(exit, 65, "{said}");
    assert_eq!(
        said,
        "moved 2 jobs from autotag to tag\n1 key that tag knows already stay in autotag:\n  2\n"
    );
    assert!(hint.contains("cancel --stage autotag"), "{hint}");
    assert_eq!(lab.ok(&["cancel", "--stage", "autotag", "--yes"]), "cancelled 1 job\n");
    let (exit, said, log) = lab.run(&["run"]);
    assert_eq!(exit, 65, "one is a dead letter: {said}{log}");
    assert!(said.starts_with("all jobs are done, 1 dead letter"), "{said}");
    lab.ok(&["dead", "redrive", "dead"]);
    assert_eq!(lab.run(&["run"]).0, 0);
    for wrong in [["--from", "nothing", "--to", "tag"], ["--from", "tag", "--to", "nothing"]] {
        let (exit, _, error) = lab.run(&[&["move"][..], &wrong].concat());
        assert_eq!(exit, 66, "{error}");
        assert!(error.contains("has no stage \"nothing\""), "{error}");
    }
}

/// Beside a process that has the jobs, and while some run.
#[test]
fn move_leaves_running_jobs_to_their_worker() {
    let lab = renamed();
    let jobs = lab.running();
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    let (exit, said, note) = lab.run(&["move", "--from", "autotag", "--to", "tag", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["moved"], &said["known"], &said["running"]),
        (&1.into(), &1.into(), &1.into()),
        "{note}"
    );
    assert_eq!((exit, &said["known_keys"]), (65, &serde_json::json!(["2"])));
    let done = tollway_pipeline::Conclusion::Done { outputs: Vec::new(), result: None };
    jobs.finish(claimed, done);
}

/// One service for each stage of a shared config.
#[test]
fn run_works_on_the_named_stages() {
    let lab = renamed();
    lab.ok(&["cancel", "--stage", "autotag", "--yes"]);
    let (exit, said, log) = lab.run(&["run", "--stage", "tag"]);
    assert_eq!(exit, 0, "{said}{log}");
    assert!(
        said.starts_with("all jobs of these stages are done; done in ") && said.contains(": tag 1"),
        "{said}"
    );
    assert_eq!(lab.json(&["status"])["stages"][1]["ready"], 1);
    let (exit, _, error) = lab.run(&["run", "--stage", "tog"]);
    assert_eq!(exit, 66, "{error}");
    assert!(error.contains("has no stage \"tog\"") && error.contains("tag, extract"), "{error}");
    assert_eq!(lab.run(&["run", "--stage", "tag", "--stage", "extract"]).0, 0);
    assert_eq!(lab.json(&["status"])["stages"][1]["ready"], 0);
}
