//! Groups that move to SQS and back, with stages that wait for them.

use tollway_pipeline::{Claimed, Filter, State};

use super::lab::{CONFIG, Jobs, Lab};
use super::live_move::Place;
use super::sqs::{engine, url};
use super::sqs_groups::{claim_one, finish, grouped};

const STAGES: [&str; 3] = ["autotag", "extract", "upload"];

fn config(engine: &str) -> String {
    CONFIG.replace("sqlite:pdf.db", engine)
}

/// Every job that has not left: stage, key and state, sorted.
fn open_jobs(jobs: &Jobs<'_>) -> Vec<(String, String, State)> {
    let all = jobs.all(Filter::default()).into_iter().filter(|job| !job.state.has_left());
    let mut open: Vec<_> = all.map(|job| (job.stage.to_string(), job.key, job.state)).collect();
    open.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    open
}

fn expected(jobs: &[(&str, &str, State)]) -> Vec<(String, String, State)> {
    jobs.iter().map(|(stage, key, state)| ((*stage).to_owned(), (*key).to_owned(), *state)).collect()
}

/// Moves the jobs to another engine. One runs meanwhile, so a first move is incomplete, and the new engine waits for it.
fn move_around_a_running_job(lab: &Lab, jobs: Jobs<'_>, running: Claimed, outputs: &[&str], to: &Place<'_>) {
    let (exit, moved, error) = lab.run(&["migrate", "--to", to.url, "--timeout", "1ms"]);
    assert_eq!(exit, 75, "{moved}{error}");
    assert!(
        error.contains("1 job still running") && error.contains("1 wait for their groups"),
        "{moved}{error}"
    );
    let there = (to.open)(lab, to.url);
    for stage in STAGES {
        assert!(there.paused(stage), "{stage} waits until the group is whole");
        assert!(there.claim(stage, 9).is_empty(), "{stage}");
    }
    drop(there);
    finish(&jobs, running, outputs);
    let (exit, moved, notes) = lab.run(&["migrate", "--to", to.url]);
    assert_eq!(exit, 0, "{moved}{notes}");
    // The first move paused it, and the second cannot know that no operator did.
    assert!(notes.contains("by an earlier run of this command: autotag, extract, upload"), "{notes}");
    assert_eq!(open_jobs(&jobs), []);
    drop(jobs);
    lab.home.write("tollway.toml", config(to.url));
    lab.ok(&["resume"]);
}

/// A group with a job in every state moves there and back, and its upload follows once, when all others have left.
fn group_moves_there_and_back(first: &Place<'_>, second: &Place<'_>) {
    let lab = Lab::with_config(&config(first.url));
    let jobs = (first.open)(&lab, first.url);
    jobs.gate();
    jobs.kill(grouped("extract", "dead", "g"), "extract", "HTTP 500", "<html>");
    jobs.add(vec![grouped("autotag", "1", "g")]);
    let running = claim_one(&jobs, "autotag");
    jobs.add(vec![grouped("autotag", "2", "g"), grouped("upload", "all", "g")]);
    move_around_a_running_job(&lab, jobs, running, &["extract"], second);

    let there = (second.open)(&lab, second.url);
    let (one, two) = (("extract", "1>autotag.0", State::Ready), ("autotag", "2", State::Ready));
    let (dead, all) = (("extract", "dead", State::Dead), ("upload", "all", State::Held));
    assert_eq!(open_jobs(&there), expected(&[two, one, dead, all]));
    let running = claim_one(&there, "extract");
    move_around_a_running_job(&lab, there, running, &[], first);

    let back = (first.open)(&lab, first.url);
    assert_eq!(open_jobs(&back), expected(&[two, dead, all]));
    finish(&back, claim_one(&back, "autotag"), &[]);
    assert!(back.claim("upload", 9).is_empty(), "a dead letter has not left");
    assert_eq!(lab.ok(&["dead", "redrive", "--all"]), "redrove 1 dead letter\n");
    finish(&back, claim_one(&back, "extract"), &[]);
    assert_eq!(claim_one(&back, "upload").job.key, "all");
}

/// P1, P8: from a file to SQS and back.
#[test]
fn groups_stay_whole_on_their_way_to_sqs_and_back() {
    let file = Place { url: "sqlite:pdf.db", open: |lab, _| lab.running() };
    group_moves_there_and_back(&file, &Place { url: &url(), open: |lab, url| lab.jobs_of(engine(url)) });
}

/// P1, P8: from SQS to a file and back, so that jobs come back to a ledger that knows them.
#[test]
fn groups_stay_whole_on_their_way_from_sqs_and_back() {
    let file = Place { url: "sqlite:pdf.db", open: |lab, _| lab.running() };
    group_moves_there_and_back(&Place { url: &url(), open: |lab, url| lab.jobs_of(engine(url)) }, &file);
}

/// P1, P8: a move that is complete at once resumes the new engine, which holds what it must.
#[test]
fn complete_move_of_a_group_resumes_sqs() {
    let url = url();
    let lab = Lab::with_config(CONFIG);
    let jobs = lab.running();
    jobs.gate();
    jobs.add(vec![grouped("upload", "all", "g"), grouped("autotag", "1", "g"), grouped("extract", "2", "g")]);
    let report = lab.json(&["migrate", "--to", &url]);
    assert_eq!((&report["moved"], &report["complete"]), (&3.into(), &true.into()), "{report}");
    drop(jobs);
    let there = lab.jobs_of(engine(&url));
    assert!(STAGES.iter().all(|stage| !there.paused(stage)));
    assert_eq!(open_jobs(&there)[2], ("upload".to_owned(), "all".to_owned(), State::Held));
    for stage in ["autotag", "extract"] {
        assert!(there.claim("upload", 9).is_empty(), "before {stage}");
        finish(&there, claim_one(&there, stage), &[]);
    }
    assert_eq!(claim_one(&there, "upload").job.key, "all");
}
