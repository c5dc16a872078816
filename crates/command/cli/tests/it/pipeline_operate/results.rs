//! Results and backups.

use tollway_pipeline::State;

use super::lab::{Lab, job};

#[test]
fn results_are_lines_of_json() {
    let lab = Lab::new();
    let jobs = lab.jobs();
    jobs.add(vec![job("autotag", "1").group("g").unwrap(), job("upload", "2"), job("upload", "3")]);
    jobs.complete("autotag", &[("extract", "1"), ("extract", "2")], None);
    jobs.complete("upload", &[], Some("{\n\"pages\": 12345678901234567890123}"));
    jobs.complete("upload", &[], Some("[1.50]"));
    drop(jobs);
    let lines = lab.ok(&["results", "--jsonl"]);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with(r#"{"id":2,"key":"2","group":null,"finished_at":"20"#), "{}", lines[0]);
    assert!(
        lines[0].ends_with(r#""outputs":0,"result":{ "pages": 12345678901234567890123}}"#),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with(r#""result":[1.50]}"#), "{}", lines[1]);
    lab.ok(&["results", "--stage", "autotag", "--output", "out.jsonl"]);
    let file = std::fs::read_to_string(lab.home.path().join("out.jsonl")).unwrap();
    assert!(file.contains(r#""group":"g""#) && file.ends_with("\"outputs\":2,\"result\":null}\n"), "{file}");
    assert_eq!(lab.run(&["results", "--output", "no/such/folder"]).0, 1);
}

/// More than a page, beside the process that has the jobs, into a pipe that closes.
#[test]
fn results_are_read_page_by_page() {
    let lab = Lab::new();
    let jobs = lab.running();
    for from in [0, 1_000, 2_000] {
        jobs.add((from..from + 1_000).map(|n| job("upload", &n.to_string())).collect());
    }
    for claimed in (0..3).flat_map(|_| jobs.claim("upload", 1_000)) {
        jobs.finish(claimed, tollway_pipeline::Conclusion::Done { outputs: Vec::new(), result: None });
    }
    assert_eq!(lab.ok(&["results"]).lines().count(), 3_000);
    let script =
        format!("{} pipeline results | head -1; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_tollway"));
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(lab.home.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("}\n0\n"), "{output:?}");
}

#[test]
fn backup_is_made_while_a_process_has_the_jobs() {
    let lab = Lab::new();
    let jobs = lab.running();
    jobs.add(vec![job("autotag", "1"), job("autotag", "2")]);
    jobs.claim("autotag", 1);
    let said = lab.ok(&["backup", "copy.db"]);
    assert!(said.starts_with("copied all jobs to copy.db: ") && said.contains("kB, in "), "{said}");
    jobs.complete("autotag", &[], None);
    let copy = lab.jobs_in(&lab.home.path().join("copy.db"));
    assert_eq!((copy.in_state(State::Ready).len(), copy.in_state(State::Running).len()), (1, 1));
    let (exit, _, error) = lab.run(&["backup", "copy.db"]);
    assert_eq!(exit, 2);
    assert!(error.contains("exists"), "{error}");
}
