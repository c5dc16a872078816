//! Moving all jobs to another engine, once each.

use std::collections::BTreeMap;

use tollway::core::Span;
use tollway_pipeline::{Attempt, Cause, Conclusion, Filter, MovedJob, Output, State};

use super::lab::{CONFIG, Jobs, Lab, UNGATED, job, name, now, until};

/// Every job that has not left: stage and key, with its state.
fn open_jobs(jobs: &Jobs<'_>) -> BTreeMap<(String, String), State> {
    let all = jobs.all(Filter::default()).into_iter().filter(|job| !job.state.has_left());
    all.map(|job| ((job.stage.to_string(), job.key), job.state)).collect()
}

#[test]
fn all_states_move_with_what_belongs_to_them() {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.jobs();
    let dead = jobs.kill(job("extract", "dead"), "extract", "HTTP 500", "<html>");
    jobs.add(vec![
        job("autotag", "ready").priority(3).group("g").unwrap(),
        job("autotag", "later").not_before(now().plus(Span::from_hours(2))),
        job("extract", "retried"),
    ]);
    let claimed = jobs.claim("extract", 1).pop().unwrap();
    let attempt = Attempt::new(Cause::Failure, "timeout");
    jobs.finish(claimed, Conclusion::Again { at: now().plus(Span::from_hours(1)), attempt });
    // A process died while this ran.
    jobs.add(vec![job("extract", "lost")]);
    jobs.claim("extract", 1);
    let before = jobs.job(dead);
    drop(jobs);
    lab.ok(&["concurrency", "extract", "7"]);
    let dry = lab.ok(&["migrate", "--to", "sqlite:new.db", "--dry-run"]);
    assert!(
        dry.contains("would move 5 jobs to sqlite:/")
            && dry.contains("extract: 1 delayed, 1 running, 1 dead"),
        "{dry}"
    );
    assert!(!lab.home.path().join("new.db").exists());
    let (exit, moved, next) = lab.run(&["migrate", "--to", "sqlite:new.db"]);
    assert_eq!(exit, 0, "{moved}{next}");
    assert!(moved.contains("moved 5 jobs to sqlite:/") && moved.contains("extract: 1 dead"), "{moved}");
    assert!(next.contains("set engine = \"sqlite:/"), "{next}");

    let new = lab.jobs_in(&lab.home.path().join("new.db"));
    let states: Vec<_> = open_jobs(&new).into_iter().map(|((_, key), state)| (key, state)).collect();
    let expected = [("later", State::Delayed), ("ready", State::Ready), ("dead", State::Dead)];
    let expected = expected.into_iter().chain([("lost", State::Ready), ("retried", State::Delayed)]);
    assert_eq!(states, expected.map(|(key, state)| (key.to_owned(), state)).collect::<Vec<_>>());
    let there = |key: &str| new.all(Filter { key: Some(key.to_owned()), ..Filter::default() }).pop().unwrap();
    let moved = there("dead");
    assert_eq!((&moved.data, &moved.error, moved.failures), (&before.data, &before.error, 1));
    assert_eq!(new.evidence(moved.id)[0].attempt.details(), "<html>");
    assert_eq!((there("ready").priority, there("ready").group.as_deref()), (3, Some("g")));
    assert_eq!((there("retried").failures, there("retried").error.as_str()), (1, "timeout"));
    assert!(there("later").due_at > now().plus(Span::from_mins(100)));
    let settings = new.wait(new.engine.stages());
    assert!(
        settings.iter().any(|stage| stage.concurrency == Some(7))
            && settings.iter().all(|stage| !stage.paused)
    );

    let old = lab.jobs();
    assert_eq!(open_jobs(&old), BTreeMap::new());
    assert!(old.paused("autotag") && old.paused("extract"));
    assert!(old.claim("autotag", 9).is_empty());
    drop(old);
    drop(new);
    assert!(lab.ok(&["why", "ready"]).contains("it moved to sqlite:/"));
    // Again: nothing is left to do.
    assert_eq!(lab.json(&["migrate", "--to", "sqlite:new.db"])["moved"], 0);
}

/// A move that was killed goes on: after the jobs were withdrawn, and after they were imported.
#[test]
fn interrupted_move_goes_on_and_loses_nothing() {
    let lab = Lab::with_config(UNGATED);
    let target = lab.home.path().join("new.db");
    let to = format!("sqlite:{}", target.display());
    let jobs = lab.jobs();
    jobs.kill(job("autotag", "dead"), "autotag", "HTTP 500", "");
    jobs.add((0..30).map(|n| job("autotag", &format!("{n:02}"))).collect());
    let withdrawn = jobs.wait(jobs.engine.withdraw(Filter::default(), &to, None, 20, now())).items;
    let arrived =
        withdrawn[..10].iter().map(|job| MovedJob { job: job.clone(), evidence: jobs.evidence(job.id) });
    let new = lab.jobs_in(&target);
    new.wait(new.engine.import(arrived.collect(), now()));
    // It was done there already.
    new.complete("autotag", &[], None);
    drop(new);
    drop(jobs);
    let (exit, _, error) = lab.run(&["migrate", "--to", "sqlite:other.db"]);
    assert_eq!(exit, 2);
    assert!(error.contains(&format!("complete it first: --to {to}")), "{error}");
    let report = lab.json(&["migrate", "--to", "sqlite:new.db"]);
    assert_eq!(
        (&report["moved"], &report["known"], &report["recovered"]),
        (&21.into(), &10.into(), &20.into())
    );
    let new = lab.jobs_in(&target);
    assert_eq!((open_jobs(&new).len(), new.in_state(State::Done).len()), (30, 1));
    let dead = new.in_state(State::Dead);
    assert_eq!((dead.len(), dead[0].error.as_str()), (1, "HTTP 500"));
    assert_eq!(open_jobs(&lab.jobs()).len(), 0);
}

/// Killed at any moment, and run again: each job is in the new engine once.
#[test]
fn killed_moves_lose_and_double_nothing() {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.jobs();
    for from in (0..8_000).step_by(1_000) {
        jobs.add((from..from + 1_000).map(|n| job("autotag", &n.to_string())).collect());
    }
    drop(jobs);
    let stderr = lab.home.path().join("stderr");
    let mut finished = false;
    for milliseconds in [150, 250, 400, 600] {
        let mut moving = lab.spawn(&["migrate", "--to", "sqlite:new.db"], &stderr);
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        finished |= moving.try_wait().unwrap().is_some();
        let _ = moving.kill();
        moving.wait().unwrap();
    }
    lab.ok(&["migrate", "--to", "sqlite:new.db"]);
    let new = lab.jobs_in(&lab.home.path().join("new.db"));
    let mut keys: Vec<u64> = new.keys(State::Ready).iter().map(|key| key.parse().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..8_000).collect::<Vec<u64>>(), "finished by itself: {finished}");
    let old = lab.jobs();
    assert_eq!((old.in_state(State::Cancelled).len(), open_jobs(&old).len()), (8_000, 0));
}

/// Workers go on with what they have, and what they hand on moves, too.
#[test]
fn move_waits_for_running_jobs() {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.running();
    jobs.add(vec![job("autotag", "1"), job("autotag", "2")]);
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    let (exit, moved, error) = lab.run(&["migrate", "--to", "sqlite:new.db", "--timeout", "1ms"]);
    assert_eq!(exit, 75, "{error}");
    assert!(
        moved.contains("moved 1 job") && error.contains("1 job still running in the old engine"),
        "{moved}{error}"
    );
    let stderr = lab.home.path().join("stderr");
    let mut moving = lab.spawn(&["migrate", "--to", "sqlite:new.db"], &stderr);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(moving.try_wait().unwrap(), None, "it waits");
    let outputs = vec![Output::new(&name("extract"), "7").unwrap()];
    jobs.finish(claimed, Conclusion::Done { outputs, result: None });
    assert_eq!(moving.wait().unwrap().code(), Some(0));
    let new = lab.jobs_in(&lab.home.path().join("new.db"));
    assert_eq!(
        open_jobs(&new).into_keys().collect::<Vec<_>>(),
        [("autotag".to_owned(), "2".to_owned()), ("extract".to_owned(), "1>autotag.0".to_owned()),]
    );
}

/// A stage that waits for a group does so across the move.
#[test]
fn groups_stay_whole() {
    let lab = Lab::with_config(CONFIG);
    let jobs = lab.running();
    jobs.gate();
    let grouped = |stage: &str, key: &str| job(stage, key).group("g").unwrap();
    jobs.add(vec![grouped("autotag", "run"), grouped("autotag", "wait"), grouped("upload", "all")]);
    jobs.kill(grouped("extract", "dead"), "extract", "x", "");
    let claimed = jobs.claim("autotag", 1).pop().unwrap();
    let (exit, moved, error) = lab.run(&["migrate", "--to", "sqlite:new.db", "--timeout", "1ms"]);
    assert_eq!(exit, 75);
    assert!(moved.contains("moved 2 jobs") && error.contains("1 wait for their groups"), "{moved}{error}");
    let path = lab.home.path().join("new.db");
    let new = lab.jobs_in(&path);
    assert!(
        new.paused("autotag") && new.paused("upload"),
        "until the group is whole, nothing is claimed there"
    );
    drop(new);
    let outputs = vec![Output::new(&name("extract"), "7").unwrap()];
    jobs.finish(claimed, Conclusion::Done { outputs, result: None });
    lab.ok(&["migrate", "--to", "sqlite:new.db"]);
    let new = lab.jobs_in(&path);
    let states: Vec<_> = open_jobs(&new).into_iter().map(|((_, key), state)| (key, state)).collect();
    let expected = [
        ("wait", State::Ready),
        ("dead", State::Dead),
        ("run>autotag.0", State::Ready),
        ("all", State::Held),
    ];
    assert_eq!(states, expected.map(|(key, state)| (key.to_owned(), state)));
}

#[test]
fn jobs_can_move_there_and_back() {
    let lab = Lab::with_config(UNGATED);
    lab.jobs().add((0..10).map(|n| job("autotag", &n.to_string())).collect());
    lab.ok(&["migrate", "--to", "sqlite:new.db"]);
    let there = lab.home.path().join("new.db");
    lab.jobs_in(&there).complete("autotag", &[("extract", "1")], None);
    lab.home.write("tollway.toml", UNGATED.replace("pdf.db", "new.db"));
    assert_eq!(lab.json(&["migrate", "--to", "sqlite:pdf.db"])["moved"], 10);
    assert_eq!(open_jobs(&lab.jobs()).len(), 10);
    assert_eq!(lab.jobs().keys(State::Ready).iter().filter(|key| key.contains('>')).count(), 1);
    assert_eq!(open_jobs(&lab.jobs_in(&there)).len(), 0);
}

#[test]
fn wrong_targets_are_refused() {
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.running();
    jobs.add(vec![job("autotag", "1")]);
    std::os::unix::fs::symlink(lab.file(), lab.home.path().join("link.db")).unwrap();
    std::fs::hard_link(lab.file(), lab.home.path().join("hard.db")).unwrap();
    for to in ["sqlite:pdf.db", "sqlite:./pdf.db", "sqlite:link.db"] {
        let (exit, _, error) = lab.run(&["migrate", "--to", to]);
        assert_eq!(exit, 2, "{to}: {error}");
        assert!(error.contains("is the engine that the jobs are in"), "{error}");
    }
    let (exit, _, error) = lab.run(&["migrate", "--to", "mysql://me:secret@db/app"]);
    assert_eq!(exit, 2);
    assert!(error.contains("sqlite:PATH, postgres://") && !error.contains("secret"), "{error}");
    assert_eq!(jobs.in_state(State::Ready).len(), 1);
    until("nothing is left paused", || !jobs.paused("autotag"));
}
