//! `why`: every state of a job in words.

use tollway::core::Span;
use tollway_pipeline::{Attempt, Cause, Change, Conclusion, Filter};

use super::lab::{CONFIG, Lab, job, now};

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What it says of a job, on one line.
fn why(lab: &Lab, job: &str) -> String {
    let text = lab.ok(&["why", job]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    squeezed(&text)
}

#[test]
fn ready_job_says_what_holds_it_up() {
    let lab = Lab::with_config(&CONFIG.replace("200 requests / minute", "1 request / day"));
    lab.jobs().add(vec![job("autotag", "1"), job("autotag", "2")]);
    let said = why(&lab, "1");
    assert!(
        said.contains("no process runs this pipeline") && said.contains("next tollway pipeline run"),
        "{said}"
    );
    assert!(said.contains("1 other job of its stage are ready too"), "{said}");
    assert!(!said.contains("quota"), "{said}");
    assert_eq!(lab.home.run(&["take", "adobe", "-q"]).0, 0);
    let _jobs = lab.running();
    let said = why(&lab, "1");
    assert!(said.contains("it waits for quota of adobe, for "), "{said}");
    assert!(said.contains("that uses no try") && !said.contains("no process"), "{said}");
    lab.ok(&["pause", "autotag"]);
    let said = why(&lab, "2");
    assert!(
        said.contains("stage autotag is paused") && said.contains("tollway pipeline resume autotag"),
        "{said}"
    );
    assert!(lab.json(&["why", "2"])["jobs"][0]["waiting_for_quota_until"].is_string());
}

#[test]
fn delayed_running_and_dead_jobs_say_why() {
    let lab = Lab::new();
    let jobs = lab.running();
    jobs.add(vec![
        job("autotag", "failed"),
        job("autotag", "later").not_before(now().plus(Span::from_hours(2))),
    ]);
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    let said = why(&lab, "failed");
    assert!(said.contains("state running") && said.contains("worker host-1:77 claimed it"), "{said}");
    assert!(said.contains("its claim expires at"), "{said}");
    let attempt = Attempt::new(Cause::Failure, "HTTP \u{1b}[31m500");
    jobs.finish(claimed, Conclusion::Again { at: now().plus(Span::from_mins(9)), attempt });
    let said = why(&lab, "failed");
    assert!(said.contains("attempt 1 of 3 failed: HTTP [31m500"), "{said}");
    assert!(said.contains("it is due in 9 min (") || said.contains("it is due in 8 min "), "{said}");
    assert!(said.contains("attempts that did not finish it 1 "), "{said}");
    assert!(why(&lab, "later").contains("it was enqueued with a delay"));

    let dead = jobs.kill(job("extract", "dead"), "extract", "no such page", "").to_string();
    let said = why(&lab, &dead);
    assert!(
        said.contains("state dead letter")
            && said.contains("its handler gave it up; the last error: no such page")
    );
    assert!(said.contains(&format!("tollway pipeline dead redrive --id {dead}")), "{said}");
    let json = lab.json(&["why", &dead]);
    assert_eq!(json["jobs"][0]["attempts"][0]["error"], "no such page");
    assert_eq!(json["jobs"][0]["data"]["chunk_key"], "dead");
}

#[test]
fn held_done_and_cancelled_jobs_say_why() {
    let lab = Lab::new();
    let jobs = lab.jobs();
    jobs.gate();
    let grouped = |stage: &str, key: &str| job(stage, key).group("job 1").unwrap();
    jobs.add(vec![grouped("autotag", "1"), grouped("autotag", "2"), grouped("upload", "all")]);
    jobs.complete("autotag", &[("extract", "{\"n\": 1}")], Some("{\"pages\": 12345678901234567890123}"));
    drop(jobs);
    let said = why(&lab, "all");
    assert!(said.contains("held until its group job 1 has left the stages before"), "{said}");
    assert!(said.contains("1 in autotag, 1 in extract") && said.contains("status --group 'job 1'"), "{said}");
    let said = why(&lab, "1");
    assert!(said.contains("it is done, and handed on 1 job"), "{said}");
    assert!(said.contains("handed on job 4 in extract, ready"), "{said}");
    assert!(said.contains("result {\"pages\": 12345678901234567890123}"), "{said}");
    assert!(lab.ok(&["why", "1", "--json"]).contains("12345678901234567890123"), "a number stays as it is");
    let jobs = lab.jobs();
    let second = Filter { key: Some("2".to_owned()), ..Filter::default() };
    jobs.wait(jobs.engine.change(second, Change::Cancel, None, 9, now()));
    drop(jobs);
    assert!(why(&lab, "2").contains("an operator cancelled it"));
}

/// A key may look like a number, be in several stages, and contain escape sequences.
#[test]
fn jobs_are_found_by_number_and_key() {
    let lab = Lab::new();
    lab.jobs().add(vec![job("autotag", "777"), job("extract", "777"), job("autotag", "a b-é")]);
    let both = why(&lab, "777");
    assert!(both.contains("job 1 777") && both.contains("job 2 777"), "{both}");
    assert!(!why(&lab, "2").contains("job 1 "), "a number is a number first");
    assert!(why(&lab, "3").contains("a b-é"));
    let one = lab.ok(&["why", "777", "--stage", "extract"]);
    assert!(one.starts_with("job 2"), "{one}");
    let (exit, _, error) = lab.run(&["why", "nothing"]);
    assert_eq!(exit, 66);
    assert!(error.contains("there is no job with the number or key \"nothing\""), "{error}");
}
