//! `tollway pipeline compact`: rewrites the file, and never while jobs run.

use tollway_pipeline::{Compaction, State};

use super::lab::{Lab, UNGATED, job, until};

#[test]
fn file_is_rewritten_and_its_sizes_are_told() {
    let lab = Lab::with_config(UNGATED);
    assert!(lab.run(&["compact"]).2.contains("there are no jobs"));
    lab.jobs().add((0..100).map(|n| job("autotag", &n.to_string())).collect());
    let told = lab.json(&["compact"]);
    assert_eq!(told["bytes"], std::fs::metadata(lab.file()).unwrap().len(), "{told}");
    assert!(told["bytes_before"].as_u64() >= told["bytes"].as_u64(), "{told}");
    let said = lab.ok(&["compact"]);
    assert!(said.starts_with("compacted ") && said.contains(" before, "), "{said}");
    assert_eq!(lab.jobs().in_state(State::Ready).len(), 100);
}

/// Never while a process works on the jobs; and jobs elsewhere have tools of their own.
#[test]
fn compact_is_refused_with_advice() {
    let lab = Lab::with_config(UNGATED);
    let running = lab.running();
    running.add(vec![job("autotag", "1")]);
    let (exit, _, error) = lab.run(&["compact"]);
    assert_eq!(exit, 75, "{error}");
    assert!(
        error.contains(&format!("process {}", std::process::id())) && error.contains("stop it"),
        "{error}"
    );
    drop(running);
    // Its socket's last task has the file for a moment more.
    let mut compaction = None;
    until("the file is free", || {
        compaction = Compaction::open(&lab.file()).ok();
        compaction.is_some()
    });
    assert_eq!(lab.run(&["compact"]).0, 75);
    drop(compaction);
    for engine in ["postgres://u:p@127.0.0.1:1/jobs", "sqs:?ledger=jobs"] {
        let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", engine));
        let (exit, _, error) = lab.run(&["compact"]);
        assert_eq!(exit, 2, "{error}");
        assert!(error.contains("these jobs are in") && !error.contains("u:p"), "{error}");
    }
}
