//! A live backlog that moves to another engine and back while workers run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollway_pipeline::{Conclusion, State};

use super::lab::{Jobs, Lab, UNGATED, job};

/// How many jobs are enqueued together.
const BATCH: usize = 1_000;

/// The pause of a worker between claims.
const PAUSE: Duration = Duration::from_millis(5);

/// How often each key was done.
type Done = BTreeMap<String, usize>;

/// How many jobs move, beside a dead letter.
fn backlog() -> usize {
    std::env::var("TOLLWAY_MOVED").map_or(300, |jobs| jobs.parse().unwrap())
}

fn config(engine: &str) -> String {
    UNGATED.replace("sqlite:pdf.db", engine)
}

/// An engine of the config, and how a worker opens it.
pub(super) struct Place<'u> {
    pub(super) url: &'u str,
    pub(super) open: for<'l> fn(&'l Lab, &str) -> Jobs<'l>,
}

/// Moves a backlog from the first engine to the second and back. Workers run in the engine that the jobs leave.
pub(super) fn there_and_back(first: &Place<'_>, second: &Place<'_>) {
    let lab = Lab::with_config(&config(first.url));
    let mut done = Done::new();
    let jobs = (first.open)(&lab, first.url);
    fill(&jobs);
    move_while_working(&lab, &jobs, second.url, &mut done);
    drop(jobs);

    lab.home.write("tollway.toml", config(second.url));
    let there = (second.open)(&lab, second.url);
    assert_eq!(there.in_state(State::Ready).len(), backlog() - done.len());
    check_dead_letter(&lab, &there);
    move_while_working(&lab, &there, first.url, &mut done);
    assert_eq!(there.in_state(State::Ready).len(), 0);
    drop(there);

    lab.home.write("tollway.toml", config(first.url));
    let back = (first.open)(&lab, first.url);
    assert_eq!(back.in_state(State::Ready).len(), backlog() - done.len());
    // It was paused when its jobs left it.
    lab.ok(&["resume", "autotag"]);
    let rest = Shift { ends: AtomicBool::new(true), ..Shift::default() };
    work(&back, &rest, backlog(), &mut done);
    let twice: Vec<_> = done.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "done more than once: {twice:?}");
    assert_eq!(done.len(), backlog(), "none is lost");
    check_dead_letter(&lab, &back);
}

/// A backlog, and a dead letter with evidence.
fn fill(jobs: &Jobs<'_>) {
    for from in (0..backlog()).step_by(BATCH) {
        let to = backlog().min(from + BATCH);
        jobs.add((from..to).map(|n| job("autotag", &n.to_string())).collect());
    }
    jobs.kill(job("extract", "dead").group("g").unwrap(), "extract", "HTTP 500", "<html>");
}

/// A worker's time: from its first job until it is told to end.
#[derive(Default)]
struct Shift {
    begun: AtomicBool,
    ends: AtomicBool,
}

impl Shift {
    /// Waits for the first job. It gives up after a minute: the caller sees that nothing was done.
    fn wait_for_first(&self) {
        for _ in 0..12_000 {
            if self.begun.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Moves all jobs to another engine while a worker does some of them.
fn move_while_working(lab: &Lab, jobs: &Jobs<'_>, to: &str, done: &mut Done) {
    let (shift, before) = (Shift::default(), done.len());
    let report: Value = thread::scope(|scope| {
        // It leaves most of the backlog, however slowly the command starts.
        let working = scope.spawn(|| work(jobs, &shift, backlog() / 4, done));
        shift.wait_for_first();
        let moved = lab.run(&["migrate", "--to", to, "--json"]);
        shift.ends.store(true, Ordering::SeqCst);
        working.join().unwrap();
        assert_eq!(moved.0, 0, "{moved:?}");
        serde_json::from_str(&moved.1).unwrap()
    });
    assert!(done.len() > before, "no job was done while jobs moved");
    let moved = backlog() - done.len() + 1;
    assert_eq!(
        (&report["complete"], &report["moved"], &report["known"]),
        (&true.into(), &moved.into(), &0.into()),
        "{report}"
    );
    assert!(!report.to_string().contains("hunter2"), "{report}");
}

/// Works on about `most` jobs, and when it is told to end, on all that it still can claim.
fn work(jobs: &Jobs<'_>, shift: &Shift, most: usize, done: &mut Done) {
    let enough = done.len() + most;
    loop {
        let ended = shift.ends.load(Ordering::SeqCst);
        let claimed = if ended || done.len() < enough { jobs.claim("autotag", 3) } else { Vec::new() };
        if claimed.is_empty() && ended {
            return;
        }
        for claimed in claimed {
            *done.entry(claimed.job.key.clone()).or_default() += 1;
            jobs.finish(claimed, Conclusion::Done { outputs: Vec::new(), result: None });
            shift.begun.store(true, Ordering::SeqCst);
        }
        thread::sleep(PAUSE);
    }
}

/// The dead letter has moved with its group, its error and its evidence.
fn check_dead_letter(lab: &Lab, jobs: &Jobs<'_>) {
    let dead = jobs.in_state(State::Dead);
    assert_eq!(dead.len(), 1, "{dead:?}");
    let dead = &dead[0];
    assert_eq!(
        (dead.stage.as_str(), dead.key.as_str(), dead.group.as_deref()),
        ("extract", "dead", Some("g"))
    );
    assert_eq!((dead.error.as_str(), dead.failures), ("HTTP 500", 1));
    let evidence = jobs.evidence(dead.id);
    assert_eq!(evidence.len(), 1, "{evidence:?}");
    assert_eq!((evidence[0].attempt.error(), evidence[0].attempt.details()), ("HTTP 500", "<html>"));
    assert!(lab.ok(&["dead", "show", "dead"]).contains("| <html>"));
}
