//! Jobs that move to another stage of their engine.

use tollway_core::Timestamp;

use super::super::Scenario;
use super::super::lab::{Lab, at, done, failure, new_job, stage};
use crate::*;

const MOVES: fn(&Capabilities) -> bool = |can| can.inspectable;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "jobs move to another stage as they are", needs: MOVES, run: as_they_are },
    Scenario { name: "running jobs do not move to another stage", needs: MOVES, run: running },
    Scenario { name: "a key that the new stage knows stays where it is", needs: MOVES, run: known },
    Scenario { name: "jobs move to another stage in steps, and back", needs: MOVES, run: steps },
    Scenario {
        name: "groups are whole while they move to another stage",
        needs: |can| can.inspectable && can.groups,
        run: groups,
    },
];

/// Moves all jobs of a stage, two at a time: how many, and which keys were known.
fn move_all(lab: &Lab, from: &str, to: &str, seconds: u64) -> (u64, Vec<String>) {
    let (from, to, now) = (stage(from), stage(to), at(seconds));
    let (mut jobs, mut known, mut after) = (0, Vec::new(), None);
    loop {
        // Claims that expired end.
        lab.wait(lab.engine.peek(&from, now));
        let step = lab.wait(lab.engine.move_to_stage(&from, &to, after, 2, now));
        jobs += step.jobs;
        known.extend(step.known);
        after = step.next;
        if after.is_none() {
            return (jobs, known);
        }
    }
}

fn of(name: &str, key: &str) -> Filter {
    Filter { stage: Some(stage(name)), key: Some(key.to_owned()), ..Filter::default() }
}

fn find(lab: &Lab, name: &str, key: &str) -> Job {
    lab.scan(&of(name, key)).pop().unwrap_or_else(|| panic!("no job {key} in {name}"))
}

/// Jobs of a stage that have not left it.
fn open(lab: &Lab, name: &str) -> u64 {
    let counts = lab.counts(name);
    State::ALL.into_iter().filter(|state| !state.has_left()).map(|state| counts.of(state)).sum()
}

fn as_they_are(lab: &Lab) {
    lab.kill(new_job("old", "dead").group("g").unwrap(), "HTTP 500", at(0));
    let tried = lab.claim_one_of(new_job("old", "tried").priority(4), at(1));
    let attempt = failure("timeout").detail("<html>");
    lab.commit(&tried, Conclusion::Again { at: at(2), attempt }, at(1));
    let given_back = lab.claim_one_of(new_job("old", "given back"), at(1));
    lab.wait(lab.engine.release(vec![given_back.claim], at(1)));
    lab.add(new_job("old", "late").not_before(at(900)), at(1));
    assert_eq!(move_all(lab, "old", "new", 10), (4, Vec::new()));
    assert_eq!(open(lab, "old"), 0);
    let counts = lab.counts("new");
    let states = [State::Dead, State::Ready, State::Delayed].map(|state| counts.of(state));
    assert_eq!((states, counts.events.enqueued), ([1, 2, 1], 4));
    let (dead, tried) = (find(lab, "new", "dead"), find(lab, "new", "tried"));
    assert_eq!((dead.error.as_str(), dead.failures, dead.group.as_deref()), ("HTTP 500", 1, Some("g")));
    assert_eq!((tried.failures, tried.priority, tried.claim_number), (1, 4, 1));
    let evidence = [dead.id, tried.id].map(|id| lab.wait(lab.engine.evidence(id)));
    assert_eq!((evidence[0].len(), evidence[1][0].attempt.details()), (1, "<html>"));
    // They are claimed there, and nowhere else; the claims go on from where they were.
    let mut claimed = lab.claim("new", 9, at(11));
    claimed.sort_by(|a, b| a.job.key.cmp(&b.job.key));
    let keys: Vec<&str> = claimed.iter().map(|claimed| claimed.job.key.as_str()).collect();
    assert_eq!((keys, claimed[1].claim.number), (vec!["given back", "tried"], 2));
    for claimed in &claimed {
        lab.commit(claimed, done("next", &["1"]), at(12));
    }
    assert_eq!(lab.claim_keys("new", 9, at(901)), ["late"]);
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(lab.change(dead, Change::Redrive, at(902)), 1);
    assert_eq!(lab.claim_keys("new", 9, at(903)), ["dead"]);
    assert!(lab.claim("old", 9, Timestamp::MAX).is_empty());
    let nothing = lab.engine.move_to_stage(&stage("old"), &stage("old"), None, 9, at(1));
    assert_eq!(lab.error(nothing).fault, EngineFault::Caller);
}

fn running(lab: &Lab) {
    let claimed = lab.claim_one_of(new_job("old", "1"), at(0));
    assert_eq!(move_all(lab, "old", "new", 1), (0, Vec::new()));
    lab.commit(&claimed, done("next", &["1"]), at(2));
    // A claim that has expired ends: its worker is late.
    let late = lab.claim_one_of(new_job("old", "2"), at(3));
    assert_eq!(move_all(lab, "old", "new", 10_000), (1, Vec::new()));
    assert_eq!(lab.finish(&late, done("next", &["1"]), at(10_001)), Finished::Late);
    assert_eq!(lab.claim_keys("new", 9, at(10_002)), ["2"]);
}

fn known(lab: &Lab) {
    let there = lab.add(new_job("new", "both"), at(0));
    lab.enqueue(vec![new_job("old", "both"), new_job("old", "one"), new_job("old", "two")], at(0));
    assert_eq!(move_all(lab, "old", "new", 1), (2, vec!["both".to_owned()]));
    assert_eq!((lab.job(there).state, open(lab, "old"), open(lab, "new")), (State::Ready, 1, 3));
    assert_eq!(lab.claim_keys("old", 9, at(2)), ["both"]);
}

fn steps(lab: &Lab) {
    lab.enqueue((0..5).map(|n| new_job("old", &n.to_string())).collect(), at(0));
    assert_eq!(move_all(lab, "old", "new", 1).0, 5);
    assert_eq!(move_all(lab, "new", "old", 2), (5, Vec::new()));
    assert_eq!((open(lab, "old"), open(lab, "new")), (5, 0));
    let mut keys = lab.claim_keys("old", 9, at(3));
    keys.sort();
    assert_eq!(keys, ["0", "1", "2", "3", "4"]);
}

/// An upload that waited for the old stage waits for the new one, and never runs before its chunks.
fn groups(lab: &Lab) {
    let after = Some(vec![stage("new"), stage("old")]);
    lab.set_stage("upload", StageChange { after, ..StageChange::default() }, at(0));
    let chunk = |at: &str, key: &str| new_job(at, key).group("g").unwrap();
    lab.enqueue(vec![chunk("old", "1"), chunk("old", "2"), chunk("upload", "u")], at(0));
    assert_eq!(move_all(lab, "old", "new", 1).0, 2);
    assert_eq!(lab.counts("upload").of(State::Held), 1);
    for claimed in lab.claim("new", 9, at(2)) {
        lab.commit(&claimed, done("next", &[]), at(3));
    }
    assert_eq!(lab.counts("upload").of(State::Ready), 1);
    // A job that moves into a stage that waits is held there, until its group has moved or left.
    lab.enqueue(vec![chunk("old", "3"), chunk("elsewhere", "u2")], at(4));
    assert_eq!(move_all(lab, "elsewhere", "upload", 5).0, 1);
    assert_eq!(find(lab, "upload", "u2").state, State::Held);
    assert_eq!(move_all(lab, "old", "elsewhere", 6).0, 1);
    assert_eq!(find(lab, "upload", "u2").state, State::Ready);
}
