//! Stages that wait for whole groups, with jobs in SQS.

use std::time::Duration;

use tollway_pipeline::{Claimed, Conclusion, Filter, NewJob, Output, State};

use super::lab::{CONFIG, Jobs, Lab, job, name, until};
use super::sqs::{engine, url};

/// Hands every job of autotag on, and notes each job in the order of their ends.
const WORKER: &str = r#"
import json, sys
for line in sys.stdin:
    job = json.loads(line)["job"]
    with open("done", "a") as done:
        done.write(job["stage"] + " " + job["key"] + "\n")
    answer = {"done": job["id"]}
    if job["stage"] == "autotag":
        answer["outputs"] = [{"data": job["data"]}]
    print(json.dumps(answer), flush=True)
"#;

pub(super) fn grouped(stage: &str, key: &str, group: &str) -> NewJob {
    job(stage, key).group(group).unwrap()
}

/// The keys of claimed jobs of the last stage.
fn claim_upload(jobs: &Jobs<'_>) -> Vec<String> {
    jobs.claim("upload", 10).into_iter().map(|claimed| claimed.job.key).collect()
}

fn keys_of(jobs: &Jobs<'_>, stage: &str, state: State) -> Vec<String> {
    let stage = Some(name(stage));
    let found = jobs.all(Filter { stage, state: Some(state), ..Filter::default() });
    let mut keys: Vec<String> = found.into_iter().map(|job| job.key).collect();
    keys.sort();
    keys
}

/// Finishes a job, which hands one on to each of these stages.
pub(super) fn finish(jobs: &Jobs<'_>, claimed: Claimed, outputs: &[&str]) {
    let outputs = outputs.iter().map(|stage| Output::new(&name(stage), "7").unwrap()).collect();
    jobs.finish(claimed, Conclusion::Done { outputs, result: None });
}

/// Claims a job of a stage that has one.
pub(super) fn claim_one(jobs: &Jobs<'_>, stage: &str) -> Claimed {
    let mut claimed = None;
    until("a job can be claimed", || {
        claimed = jobs.claim(stage, 1).pop();
        claimed.is_some()
    });
    claimed.unwrap()
}

/// Runs the command until all jobs are done. It fails if that takes too long.
fn run_to_the_end(lab: &Lab) {
    let stderr = lab.home.path().join("stderr");
    let mut run = lab.spawn(&["run"], &stderr);
    let mut ended = None;
    for _ in 0..600 {
        ended = run.try_wait().unwrap();
        if ended.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = run.kill();
    run.wait().unwrap();
    let (status, said) = (lab.ok(&["status"]), std::fs::read_to_string(stderr).unwrap());
    assert!(ended.is_some_and(|ended| ended.success()), "{ended:?}: {status}{said}");
}

/// P1: a job waits until every other job of its group has left the stages before, those that are handed on included.
#[test]
fn upload_is_held_until_its_group_has_left() {
    let url = url();
    let lab = Lab::with_config(&CONFIG.replace("sqlite:pdf.db", &url));
    let jobs = lab.jobs_of(engine(&url));
    jobs.gate();
    jobs.add(vec![
        grouped("upload", "all", "g"),
        grouped("autotag", "one", "g"),
        grouped("extract", "two", "g"),
        grouped("upload", "other", "h"),
    ]);
    assert_eq!(keys_of(&jobs, "upload", State::Held), ["all"]);
    let stages = lab.json(&["status"])["stages"].clone();
    assert_eq!((&stages[2]["held"], &stages[2]["ready"]), (&1.into(), &1.into()), "{stages}");
    let said = lab.ok(&["why", "all"]);
    assert!(
        said.contains("held until its group g has left") && said.contains("1 in autotag, 1 in extract"),
        "{said}"
    );
    until("the other group is complete", || claim_upload(&jobs) == ["other"]);

    finish(&jobs, claim_one(&jobs, "extract"), &[]);
    assert_eq!(claim_upload(&jobs), [""; 0]);
    // What a job hands on belongs to its group, too.
    finish(&jobs, claim_one(&jobs, "autotag"), &["extract"]);
    assert_eq!(claim_upload(&jobs), [""; 0]);
    assert_eq!(keys_of(&jobs, "upload", State::Held), ["all"]);
    finish(&jobs, claim_one(&jobs, "extract"), &[]);
    assert_eq!(keys_of(&jobs, "upload", State::Ready), ["all"]);
    until("the group has left", || claim_upload(&jobs) == ["all"]);
}

/// P1: a dead letter has not left: its group goes on when it is redriven and done.
#[test]
fn dead_letter_holds_its_group() {
    let url = url();
    let lab = Lab::with_config(&CONFIG.replace("sqlite:pdf.db", &url));
    let jobs = lab.jobs_of(engine(&url));
    jobs.gate();
    jobs.kill(grouped("extract", "bad", "g"), "extract", "HTTP 500", "");
    jobs.add(vec![grouped("upload", "all", "g")]);
    assert_eq!(claim_upload(&jobs), [""; 0]);
    assert_eq!(lab.ok(&["dead", "redrive", "--all"]), "redrove 1 dead letter\n");
    assert_eq!(claim_upload(&jobs), [""; 0]);
    finish(&jobs, claim_one(&jobs, "extract"), &[]);
    until("the group has left", || claim_upload(&jobs) == ["all"]);
}

/// P1: the command runs three stages on SQS; each upload runs once, after its whole group.
#[test]
fn command_runs_stages_that_wait_for_groups() {
    let url = url();
    let config = CONFIG.replace("sqlite:pdf.db", &url).replace("[\"cat\"]", "[\"python3\", \"worker.py\"]");
    let lab = Lab::with_config(&config);
    lab.home.write("worker.py", WORKER);
    let jobs = lab.jobs_of(engine(&url));
    jobs.gate();
    let groups = ["g", "h", "i"];
    for group in groups {
        let chunks = (0..4).map(|n| grouped("autotag", &format!("{group}-{n}"), group));
        jobs.add([grouped("upload", &format!("{group}-all"), group)].into_iter().chain(chunks).collect());
    }
    // Without members in the stages before: released at once.
    jobs.add(vec![grouped("upload", "alone", "j")]);
    run_to_the_end(&lab);
    let done = std::fs::read_to_string(lab.home.path().join("done")).unwrap();
    let lines: Vec<&str> = done.lines().collect();
    assert_eq!(lines.len(), 3 * (4 + 4 + 1) + 1, "{done}");
    for group in groups {
        let upload = lines.iter().position(|line| *line == format!("upload {group}-all")).unwrap();
        let is_chunk = |line: &str| line.contains(&format!(" {group}-")) && !line.starts_with("upload");
        assert!(lines[upload..].iter().all(|line| !is_chunk(line)), "{group}: {done}");
    }
    assert_eq!(jobs.in_state(State::Done).len(), lines.len());
}
