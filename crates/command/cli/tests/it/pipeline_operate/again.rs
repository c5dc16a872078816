//! Keys whose jobs were dropped, and which job a command means.

use tollway_pipeline::State;

use super::lab::{Lab, UNGATED, job};

fn dropped() -> Lab {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.jobs();
    for key in ["1", "2"] {
        jobs.kill(job("autotag", key), "autotag", "HTTP 400", "");
    }
    jobs.add(vec![job("autotag", "waits")]);
    drop(jobs);
    lab
}

/// Export, drop, correct, enqueue again: no job is gone without a word.
#[test]
fn dropped_keys_are_counted_apart_and_revived_on_purpose() {
    let lab = dropped();
    lab.ok(&["dead", "export", "--output", "dead.jsonl"]);
    assert_eq!(lab.ok(&["dead", "drop", "--all", "--yes"]), "dropped 2 dead letters\n");
    let more = std::fs::read_to_string(lab.home.path().join("dead.jsonl")).unwrap();
    lab.home.write("dead.jsonl", format!("{more}{{\"chunk_key\": \"waits\"}}\n"));
    let (exit, said, _) = lab.run(&["enqueue", "dead.jsonl"]);
    assert_eq!(exit, 65, "{said}");
    assert!(
        said.contains("0 new jobs in stage autotag")
            && said.contains("1 were there already")
            && said.contains("2 were dropped or cancelled: add --again to make them new jobs"),
        "{said}"
    );
    let again = lab.json(&["enqueue", "dead.jsonl", "--again"]);
    assert_eq!((&again["new"], &again["known"], &again["cancelled"]), (&2.into(), &1.into(), &0.into()));
    assert_eq!(lab.jobs().keys(State::Ready), ["1", "2", "waits"]);
}

/// `redrive`, `drop`, `edit` and `show` take one dead letter as an argument or with `--id`.
#[test]
fn one_dead_letter_is_named_in_the_same_way_everywhere() {
    let lab = dropped();
    for edit in [&["dead", "edit", "1"][..], &["dead", "edit", "--id", "1"]] {
        lab.ok(&[edit, &["--data", "{\"page\": 7}"]].concat());
    }
    assert!(lab.ok(&["dead", "show", "--id", "1"]).contains("\"page\": 7"));
    assert_eq!(lab.ok(&["dead", "redrive", "2", "--dry-run"]), "would redrive 1 dead letter\n");
    assert_eq!(lab.ok(&["dead", "redrive", "2"]), "redrove 1 dead letter\n");
    assert_eq!(lab.ok(&["dead", "drop", "--id", "1", "--yes"]), "dropped 1 dead letter\n");
    assert_eq!(lab.run(&["dead", "redrive", "2", "--all"]).0, 2);
    assert_eq!(lab.run(&["dead", "edit"]).0, 2);
}

/// The guide: 66 means that there is no such job. A filter that matches nothing is no mistake.
#[test]
fn missing_job_has_its_exit_code() {
    let lab = dropped();
    for command in [&["dead", "redrive"][..], &["dead", "drop", "--yes"], &["cancel", "--yes"]] {
        let (exit, _, error) = lab.run(&[command, &["--id", "99"]].concat());
        assert_eq!(exit, 66, "{command:?}: {error}");
        assert!(error.contains("there is no job with the number or key \"99\""), "{error}");
        let (exit, said, _) = lab.run(&[command, &["--error", "no such error"]].concat());
        assert_eq!(exit, 0, "{command:?}: {said}");
    }
    let (exit, _, error) = lab.run(&["dead", "redrive", "--key", "waits"]);
    assert_eq!(exit, 1);
    assert!(error.contains("cannot redrive \"waits\": it is ready in autotag"), "{error}");
    assert_eq!(lab.run(&["dead", "drop", "waits", "--yes"]).0, 1);
}

/// A paused stage, and a job that runs: what happens now is said.
#[test]
fn commands_say_what_comes_of_their_change() {
    let lab = dropped();
    lab.ok(&["pause", "autotag"]);
    let (_, _, note) = lab.run(&["dead", "redrive", "--all"]);
    assert!(note.contains("autotag is paused") && note.contains("tollway pipeline resume autotag"), "{note}");
    lab.ok(&["resume", "autotag"]);
    lab.jobs().claim("autotag", 1);
    let (_, said, note) = lab.run(&["cancel", "--all", "--yes"]);
    assert_eq!(said, "cancelled 3 jobs\n");
    assert!(
        note.contains("1 of them is running: its call is not recalled") && note.contains("answer is ignored"),
        "{note}"
    );
}

/// The forecast agrees with what is known.
#[test]
fn forecast_says_why_there_is_none() {
    let lab = dropped();
    lab.ok(&["pause"]);
    let status = lab.ok(&["status"]);
    assert!(status.contains("no end in sight while autotag") && !status.contains("done in"), "{status}");
    assert!(lab.json(&["status"])["eta"].is_null());
    assert!(lab.json(&["status"])["no_eta_because"].is_string());
}
