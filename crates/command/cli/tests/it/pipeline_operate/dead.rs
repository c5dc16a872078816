//! Dead letters: listing, counting, redriving, dropping, exporting.

use tollway_pipeline::{JobCost, NewJob, State};

use super::lab::{Lab, UNGATED, job, name, signal, until};

/// Some dead letters: three errors, two stages, two groups.
fn filled() -> Lab {
    let lab = Lab::new();
    let jobs = lab.jobs();
    for n in 0..5 {
        let group = if n % 2 == 0 { "even" } else { "odd" };
        let new = job("autotag", &format!("chunk-{n}")).group(group).unwrap();
        jobs.kill(new, "autotag", "timeout after 10 m", "line 1\nline \u{1b}[31m2");
    }
    jobs.kill(job("extract", "page"), "extract", "HTTP 404", "");
    jobs.add(vec![job("extract", "alive")]);
    drop(jobs);
    lab
}

/// P7: listed and counted.
#[test]
fn dead_letters_are_listed_and_counted() {
    let lab = filled();
    let list = lab.ok(&["dead", "list", "--limit", "2"]);
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(list.starts_with("1  autotag  ") && list.contains("chunk-1\n  timeout after 10 m"), "{list}");
    let (_, _, note) = lab.run(&["dead", "list", "--limit", "2"]);
    assert!(note.contains("2 of 6 dead letters"), "{note}");
    let json = lab.json(&["dead", "list", "--group", "odd"]);
    assert_eq!((&json["found"], &json["dead_letters"][1]["key"]), (&2.into(), &"chunk-3".into()));
    assert_eq!(lab.json(&["dead", "list", "--error", "TIMEOUT", "--stage", "autotag"])["found"], 5);
    let counted = lab.ok(&["dead", "list", "--group-by", "error"]);
    assert_eq!(counted, "jobs  example  error\n   5        1  timeout after 10 m\n   1        6  HTTP 404\n");
    let json = lab.json(&["dead", "list", "--group-by", "group"]);
    let counts: Vec<_> =
        json["counts"].as_array().unwrap().iter().map(|row| (&row["group"], &row["jobs"])).collect();
    assert_eq!(counts, [(&"even".into(), &3.into()), (&"odd".into(), &2.into()), (&"".into(), &1.into())]);
    assert_eq!(Lab::new().run(&["dead", "list"]).0, 2, "without a file");
}

#[test]
fn dead_letter_is_shown_in_full() {
    let lab = filled();
    let shown = lab.ok(&["dead", "show", "chunk-0"]);
    assert!(shown.contains("  error     timeout after 10 m"), "{shown}");
    assert!(shown.contains("data\n  {\n    \"chunk_key\": \"chunk-0\"\n  }\n"), "{shown}");
    assert!(
        shown.contains("     | line 1\n     | line \u{fffd}[31m2\n"),
        "escape sequences are shown, not sent: {shown}"
    );
    assert_eq!(lab.json(&["dead", "show", "6"])["attempts"][0]["worker"], "host-1:77");
    let (exit, _, error) = lab.run(&["dead", "show", "alive"]);
    assert_eq!(exit, 1);
    assert!(error.contains("is no dead letter: ready in extract"), "{error}");
}

/// P7: redriven, all or some.
#[test]
fn redrive_takes_filters_and_a_limit() {
    let lab = filled();
    assert_eq!(lab.run(&["dead", "redrive"]).0, 2);
    assert_eq!(
        lab.ok(&["dead", "redrive", "--error", "timeout", "--dry-run"]),
        "would redrive 5 dead letters\n"
    );
    assert_eq!(
        lab.ok(&["dead", "redrive", "--error", "timeout", "--limit", "2"]),
        "redrove 2 dead letters\n"
    );
    let jobs = lab.jobs();
    let ready = jobs.in_state(State::Ready);
    let again: Vec<_> = ready.iter().map(|job| (job.key.as_str(), job.failures)).collect();
    assert_eq!(again, [("chunk-0", 0), ("chunk-1", 0), ("alive", 0)]);
    drop(jobs);
    // Over the socket of the process that runs it.
    let jobs = lab.running();
    assert_eq!(lab.json(&["dead", "redrive", "--all"])["changed"], 4);
    assert!(jobs.in_state(State::Dead).is_empty());
}

/// P7: slowly. The rest stays dead letters, and the pipeline can be started while it waits.
#[test]
fn slow_redrive_can_be_interrupted_and_goes_on() {
    let lab = filled();
    let stderr = lab.home.path().join("stderr");
    let mut redriving = lab.spawn(&["dead", "redrive", "--all", "--rate", "2 / day"], &stderr);
    until("the first is ready", || lab.ok(&["dead", "list"]).lines().count() == 10);
    // It has not kept the file.
    assert_eq!(lab.jobs().in_state(State::Dead).len(), 5);
    assert_eq!(redriving.try_wait().unwrap(), None);
    signal(&redriving, "TERM");
    assert_eq!(redriving.wait().unwrap().code(), Some(143));
    let said = std::fs::read_to_string(&stderr).unwrap();
    assert!(said.contains("interrupted: redrove 1 dead letter of 6"), "{said}");
    assert_eq!(
        lab.ok(&["dead", "redrive", "--all", "--rate", "100000 / second"]),
        "redrove 5 dead letters\n"
    );
    let (exit, _, error) = lab.run(&["dead", "redrive", "--all", "--rate", "soon"]);
    assert_eq!(exit, 2);
    assert!(error.contains("write it like \"100 / minute\""), "{error}");
}

#[test]
fn drop_needs_a_yes() {
    let lab = filled();
    let (exit, _, error) = lab.run(&["dead", "drop", "--error", "404"]);
    assert_eq!(exit, 2);
    assert!(error.contains("would drop 1 dead letter, and cannot ask without a terminal"), "{error}");
    assert_eq!(lab.ok(&["dead", "drop", "--error", "404", "--dry-run"]), "would drop 1 dead letter\n");
    assert_eq!(lab.ok(&["dead", "drop", "--error", "404", "--yes"]), "dropped 1 dead letter\n");
    let jobs = lab.jobs();
    assert_eq!(
        (jobs.keys(State::Cancelled), jobs.keys(State::Ready)),
        (vec!["page".to_owned()], vec!["alive".to_owned()])
    );
    assert_eq!(jobs.in_state(State::Dead).len(), 5);
}

/// P7: exported with all evidence, and enqueued again elsewhere as the same jobs.
#[test]
fn exported_dead_letters_can_be_enqueued_again() {
    let lab = filled();
    let jobs = lab.jobs();
    let cost = JobCost::new([("adobe", "requests", 2)]).unwrap();
    let odd =
        NewJob::new(&name("extract"), "odd > key", "{\n  \"n\": 1e400,\n  \"text\": \"a\\nb\"\n}").unwrap();
    let id = jobs.kill(odd.cost(cost.clone()), "extract", "HTTP 500", "<html>");
    drop(jobs);
    let stdout = lab.ok(&["dead", "export", "--stage", "extract"]);
    assert_eq!(stdout.lines().count(), 2);
    lab.ok(&["dead", "export", "--output", "dead.jsonl"]);
    let text = std::fs::read_to_string(lab.home.path().join("dead.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[6].contains(r#""data":{   "n": 1e400,   "text": "a\nb" }"#), "{}", lines[6]);
    assert!(lines[6].contains(r#""detail":"<html>""#), "{}", lines[6]);

    let other = Lab::with_config(UNGATED);
    other.home.write("dead.jsonl", &text);
    other.ok(&["enqueue", "dead.jsonl"]);
    let there = other.jobs();
    let mut ready = there.in_state(State::Ready);
    ready.sort_by_key(|job| job.id);
    assert_eq!(ready.len(), 7);
    assert_eq!(
        (ready[0].stage.as_str(), ready[0].key.as_str(), ready[0].group.as_deref()),
        ("autotag", "chunk-0", Some("even"))
    );
    let last = &ready[6];
    assert_eq!((last.stage.as_str(), last.key.as_str(), &last.cost), ("extract", "odd > key", &cost));
    // Where they are still known, nothing changes.
    lab.ok(&["enqueue", "dead.jsonl"]);
    assert_eq!(lab.jobs().job(id).state, State::Dead);
}
