//! The checker finds bugs: five that are planted into an engine or a runner, and the traces that others would leave.

use std::path::Path;
use std::time::Duration;

use crate::bugs::Bug;
use crate::checker::{Limit, OPEN, check, check_folder};
use crate::child::{Enqueues, Plan};
use crate::lab::{Jobs, Lab, wait_until};
use crate::now;

/// A limit that binds.
const TIGHT: Limit = Limit { calls: 20, window: 6_000_000 };

/// P4.
#[test]
fn hand_off_in_two_transactions_is_found() {
    on_both("lost output", OPEN, |jobs, bug| {
        dies_and_goes_on(jobs, bug.then_some(Bug::HandOffInTwoTransactions))
    });
}

/// P4.
#[test]
fn answer_before_commit_is_found() {
    let run = |jobs, bug: bool| dies_and_goes_on(jobs, bug.then_some(Bug::AnswerBeforeCommit));
    on_both("acknowledged before it was stored", OPEN, run);
}

/// P4.
#[test]
fn missing_fence_is_found() {
    let run = |jobs, bug: bool| {
        let lab = expires(jobs, bug.then_some(Bug::NoFence));
        let audit = std::fs::read_to_string(lab.path("audit.log")).unwrap();
        assert!(bug || audit.contains(" late a one.0-00013 1"), "no answer was late: {audit}");
        lab
    };
    on_both("late answer accepted", OPEN, run);
}

/// P4.
#[test]
fn lost_output_is_found() {
    on_both("lost output", OPEN, |jobs, bug| dies_and_goes_on(jobs, bug.then_some(Bug::LostOutput)));
}

/// P3: a job that is claimed before its token waits with a claim.
#[test]
fn claim_before_token_is_found() {
    let run = |jobs, bug: bool| waits_for_tokens(jobs, bug.then_some(Bug::ClaimBeforeToken));
    on_both("claim before token", TIGHT, run);
}

/// On each engine, a run without the bug passes, and the same run with the bug does not.
fn on_both(kind: &str, limit: Limit, run: impl Fn(Jobs, bool) -> Lab) {
    for jobs in [|| Jobs::Sqlite, Jobs::postgres] {
        let right = run(jobs(), false);
        let finished = limit.calls == OPEN.calls;
        check(&right, limit, finished).unwrap_or_else(|wrong| panic!("without the bug: {wrong}"));
        found(kind, check(&run(jobs(), true), limit, finished));
    }
}

/// The process dies when its tenth job of the first stage is done, and a second one finishes what it left.
fn dies_and_goes_on(jobs: Jobs, bug: Option<Bug>) -> Lab {
    let lab = Lab::new(jobs);
    let plan = Plan { enqueues: Enqueues::AtOnce(13), bug, ..lab.plan("one", 0) };
    lab.start(Plan { dies_at: Some(10), ..plan.clone() }).dies();
    lab.start(Plan { enqueues: Enqueues::AtOnce(0), process: "one.1".to_owned(), ..plan }).finish();
    lab
}

/// The calls of one job take longer than its claim lasts.
fn expires(jobs: Jobs, bug: Option<Bug>) -> Lab {
    let lab = Lab::new(jobs);
    lab.start(Plan { enqueues: Enqueues::AtOnce(14), bug, ..lab.plan("one", 0) }).finish();
    lab
}

/// The process has far more jobs and workers than tokens, and is killed while it waits for them.
fn waits_for_tokens(jobs: Jobs, bug: Option<Bug>) -> Lab {
    let lab = Lab::new(jobs);
    // Early in a window: a call that is sent at its very end arrives in the next one.
    let into_window = now().as_micros() % TIGHT.window;
    if into_window > TIGHT.window / 3 {
        std::thread::sleep(Duration::from_micros(TIGHT.window - into_window));
    }
    let process = lab.start(Plan {
        limit: format!("{} / 6 seconds", TIGHT.calls),
        concurrency: 300,
        enqueues: Enqueues::AtOnce(300),
        bug,
        ..lab.plan("one", 0)
    });
    wait_until("a window is used", || lab.vendor.calls() >= TIGHT.calls);
    process.kill();
    lab
}

fn found(kind: &str, checked: Result<String, String>) {
    let Err(wrong) = checked else { panic!("{kind}: not found") };
    assert!(wrong.lines().any(|line| line.starts_with(&format!("{kind}: "))), "not {kind}, but: {wrong}");
}

/// P4: what other bugs would leave behind, written into the records of a right pipeline.
#[test]
fn traces_of_other_bugs_are_found() {
    let lab = &dies_and_goes_on(Jobs::Sqlite, None);
    let in_file = |kind, sql: &str| {
        let copy = copy(lab);
        rusqlite::Connection::open(copy.path().join("jobs.db")).unwrap().execute_batch(sql).unwrap();
        found(kind, check_folder(copy.path(), OPEN, true));
    };
    in_file("lost job", "DELETE FROM jobs WHERE key = 'one.0-00007'");
    in_file("unfinished job", "UPDATE jobs SET state = 3 WHERE key = 'one.0-00007>a.0'");
    in_file("completions", "DELETE FROM completions WHERE job = (SELECT max(id) FROM jobs)");
    in_file("lost output", "DELETE FROM jobs WHERE key = 'one.0-00007>a.1'");
    in_file("output too many", "UPDATE jobs SET key = 'one.0-00007>a.2' WHERE key = 'one.0-00007>a.1'");
    in_file("wrong output", "UPDATE data SET data = '{}' WHERE job = (SELECT max(id) FROM jobs)");
    in_file("late answer accepted", "UPDATE jobs SET claim_number = 9 WHERE key = 'one.0-00007'");

    let in_log = |kind, log: &str, change: &dyn Fn(&str) -> String| {
        let copy = copy(lab);
        let path = copy.path().join(log);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(&text)).unwrap();
        found(kind, check_folder(copy.path(), OPEN, true));
    };
    let without = |text: &str, part: &str| -> String {
        text.lines().filter(|line| !line.contains(part)).map(|line| format!("{line}\n")).collect()
    };
    in_log("answer without a call", "vendor.log", &|text| without(text, "a one.0-00007 "));
    in_log("call without a claim", "vendor.log", &|text| text.repeat(2));
    in_log("claimed twice", "audit.log", &|text| text.repeat(2));
    in_log("claim without an end", "audit.log", &|text| format!("{text}1 one.9 claimed a one.0-00007 0\n"));
    in_log("lost job", "audit.log", &|text| format!("{text}1 one.0 enqueued a another 0\n"));
    found("above the limit", check_folder(&lab.path(""), Limit { calls: 1, ..OPEN }, true));
}

fn copy(lab: &Lab) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["jobs.db", "vendor.log", "audit.log", "kills.log"] {
        std::fs::copy(lab.path(name), copy.path().join(Path::new(name))).unwrap();
    }
    copy
}
