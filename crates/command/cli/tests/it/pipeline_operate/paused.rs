//! Stages that a run has paused itself.

use super::lab::{Lab, job};

/// Every call fails.
const FAILS: &str = r#"
    [pipelines.pdf]
    engine = "sqlite:pdf.db"
    stages = [
        { name = "tag", handler = { command = ["sh", "-c", "sleep 0.2; exit 75"], each = true }, tries = 1, concurrency = 2 },
    ]
    [pipelines.pdf.alarms]
    attempts_min = 4
"#;

/// `run` does not wait for ever for a stage that too many failures have paused: it ends, names it, and says what to do.
#[test]
fn run_ends_when_failures_have_paused_its_stage() {
    let lab = Lab::with_config(FAILS);
    lab.jobs().add((0..300).map(|n| job("tag", &n.to_string())).collect());
    let (exit, said, log) = lab.run(&["run"]);
    assert_eq!(exit, 75, "{said}{log}");
    assert!(said.contains(" left, and tag is paused") && !said.contains("all jobs are done"), "{said}");
    assert!(log.contains("tollway pipeline resume tag"), "{log}");
    let status = lab.ok(&["status"]);
    assert!(status.contains("no end in sight while tag is paused"), "{status}");
    let (_, _, note) = lab.run(&["dead", "redrive", "--all", "--limit", "1"]);
    assert!(note.contains("tag is paused"), "{note}");
}
