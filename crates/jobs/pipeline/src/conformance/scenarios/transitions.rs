//! Every call to a job in every state: each engine makes of it what the rule book says.

use tollway_core::{Span, Timestamp};

use super::super::Scenario;
use super::super::lab::{Lab, VISIBILITY, at, failure, new_job, stage};
use crate::job::transition::{JobCall, Lifecycle, transition};
use crate::*;

pub(super) const ALL: &[Scenario] = &[Scenario {
    name: "every call to a job in every state",
    needs: |can| can.inspectable && can.groups,
    run: every_call,
}];

/// How a job came into the state it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Ready,
    GivenBack,
    Delayed,
    Held,
    Running,
    Expired,
    Dead,
    Done,
    Cancelled,
}

const SETUPS: [Setup; 9] = [
    Setup::Ready,
    Setup::GivenBack,
    Setup::Delayed,
    Setup::Held,
    Setup::Running,
    Setup::Expired,
    Setup::Dead,
    Setup::Done,
    Setup::Cancelled,
];

/// When the job is brought into its state, and when it is called.
const SET_UP: Timestamp = Timestamp::from_secs(2_000_000);
const CALLED: Timestamp = Timestamp::from_secs(2_000_000 + 60 * 60);

fn every_call(lab: &Lab) {
    let attempt = failure("again");
    let after = Some(vec![stage("before")]);
    lab.set_stage("held", StageChange { after, ..StageChange::default() }, at(0));
    lab.set_stage("b", StageChange::default(), at(0));
    let calls = [
        JobCall::Claim { visibility: VISIBILITY },
        JobCall::Renew { visibility: VISIBILITY },
        JobCall::Release,
        JobCall::Abandon,
        JobCall::Done,
        JobCall::Again { at: CALLED, attempt: &attempt },
        JobCall::Again { at: CALLED.plus(Span::from_mins(1)), attempt: &attempt },
        JobCall::Bury { attempt: &attempt },
        JobCall::Edit { priority: Some(3) },
        JobCall::Change(Change::Redrive),
        JobCall::Change(Change::Cancel),
        JobCall::Change(Change::Reprioritise(4)),
        JobCall::Withdraw,
        JobCall::Move { held: false },
        JobCall::GroupLeft,
        JobCall::Due,
    ];
    for (place, setup) in SETUPS.into_iter().enumerate() {
        for (number, call) in calls.into_iter().enumerate() {
            // Engines differ in when an operator sees that a claim has expired: at the next look of a worker, or at once.
            if setup == Setup::Expired && matches!(call, JobCall::Edit { .. } | JobCall::Withdraw) {
                continue;
            }
            one_call(lab, setup, call, &format!("{place}-{number}"));
        }
    }
}

fn one_call(lab: &Lab, setup: Setup, call: JobCall<'_>, key: &str) {
    let name = format!("{call:?} to a job that was {setup:?}");
    let from = if setup == Setup::Held { "held" } else { "a" };
    let (id, claim) = set_up(lab, setup, from, key);
    let mut life = Lifecycle::of(&lab.job(id), matches!(setup, Setup::Running | Setup::Expired));
    if matches!(call, JobCall::Claim { .. } | JobCall::Move { .. }) {
        life = transition(&life, JobCall::Due, CALLED).map_or(life, |due| due.after);
    }
    let expected = transition(&life, call, CALLED);
    let applied = carry_out(lab, call, from, id, &claim);
    // Every engine looks at what is due, sooner or later.
    assert!(call == JobCall::Due || applied == expected.is_some(), "whether it applies: {name}");
    let there = if applied && matches!(call, JobCall::Move { .. }) { "b" } else { from };
    let filter = Filter { key: Some(key.to_owned()), stage: Some(stage(there)), ..Filter::default() };
    let job = lab.scan(&filter).pop().unwrap_or_else(|| panic!("the job is gone: {name}"));
    let wanted = expected.map_or(life, |expected| expected.after);
    assert_eq!(settled(Lifecycle::of(&job, false)), settled(wanted), "{name}");
    let newest = Claim { job: job.id, stage: job.stage, number: job.claim_number };
    assert_eq!(
        lab.wait(lab.engine.renew(vec![newest], VISIBILITY, CALLED)),
        [wanted.open],
        "its claim: {name}"
    );
    for at in ["a", "b", "before", "held"] {
        lab.change(Filter { stage: Some(stage(at)), ..Filter::default() }, Change::Cancel, CALLED);
    }
}

/// The part that all engines agree about: one may see that a job is due where another sees it at the next look, and jobs that
/// wait for no time have an old one.
fn settled(life: Lifecycle) -> Lifecycle {
    let life = transition(&life, JobCall::Due, CALLED).map_or(life, |due| due.after);
    let timed = matches!(life.state, State::Delayed | State::Running | State::Held);
    Lifecycle { open: false, due_at: if timed { life.due_at } else { Timestamp::EPOCH }, ..life }
}

/// A job in a state, and its newest claim, or one that there never was.
fn set_up(lab: &Lab, setup: Setup, from: &str, key: &str) -> (JobId, Claim) {
    let mut job = new_job(from, key);
    if setup == Setup::Held {
        let before = new_job("before", key).group(key).unwrap().not_before(CALLED.plus(Span::from_days(1)));
        lab.add(before, SET_UP);
        job = job.group(key).unwrap();
    }
    if setup == Setup::Delayed {
        job = job.not_before(CALLED.plus(Span::from_mins(5)));
    }
    let id = lab.add(job, SET_UP);
    let mut claim = Claim { job: id, stage: stage(from), number: 1 };
    if matches!(setup, Setup::Ready | Setup::Delayed | Setup::Held) {
        return (id, claim);
    }
    // A claim that runs was made shortly before the call.
    let claimed_at = if setup == Setup::Running { CALLED.minus(Span::from_mins(1)) } else { SET_UP };
    let claimed = lab.claim_one(from, claimed_at);
    assert_eq!(claimed.job.id, id, "the only ready job");
    claim = claimed.claim.clone();
    match setup {
        Setup::GivenBack => assert_eq!(lab.wait(lab.engine.release(vec![claim.clone()], SET_UP)), [true]),
        Setup::Dead => lab.commit(&claimed, Conclusion::Dead { attempt: failure("dead") }, SET_UP),
        Setup::Done => lab.commit(&claimed, Conclusion::Done { outputs: Vec::new(), result: None }, SET_UP),
        Setup::Cancelled => {
            let one = Filter { job: Some(id), ..Filter::default() };
            assert_eq!(lab.change(one, Change::Cancel, SET_UP), 1);
        }
        _ => {}
    }
    (id, claim)
}

/// Carries a call out. Whether it applied.
fn carry_out(lab: &Lab, call: JobCall<'_>, from: &str, id: JobId, claim: &Claim) -> bool {
    let (engine, one) = (&lab.engine, Filter { job: Some(id), ..Filter::default() });
    let finish = |conclusion| {
        let finished = lab.wait(engine.finish(claim.clone(), conclusion, CALLED));
        matches!(finished, Finished::Committed { .. })
    };
    match call {
        JobCall::Claim { .. } => lab.claim(from, 9, CALLED).iter().any(|claimed| claimed.job.id == id),
        JobCall::Renew { visibility } => lab.wait(engine.renew(vec![claim.clone()], visibility, CALLED))[0],
        JobCall::Release => lab.wait(engine.release(vec![claim.clone()], CALLED))[0],
        JobCall::Abandon => lab.wait(engine.abandon(None, CALLED)) == 1,
        JobCall::Done => finish(Conclusion::Done { outputs: Vec::new(), result: None }),
        JobCall::Again { at, attempt } => finish(Conclusion::Again { at, attempt: attempt.clone() }),
        JobCall::Bury { attempt } => finish(Conclusion::Dead { attempt: attempt.clone() }),
        JobCall::Edit { priority } => {
            let edit = Edit::default().priority(priority.unwrap_or_default());
            lab.wait(engine.edit(id, edit, CALLED)) == Edited::Changed
        }
        JobCall::Change(change) => lab.change(one, change, CALLED) == 1,
        JobCall::Withdraw => {
            lab.wait(engine.withdraw(one, "sqlite:other.db", None, 1, CALLED)).items.len() == 1
        }
        JobCall::Due => lab.wait(engine.peek(&stage(from), CALLED)).cost.is_some(),
        JobCall::GroupLeft => {
            let before = Filter { stage: Some(stage("before")), ..Filter::default() };
            lab.change(before, Change::Cancel, CALLED) == 1
        }
        JobCall::Import { .. } => unreachable!("no job is there before: see the scenarios of moving"),
        JobCall::Move { .. } => {
            lab.wait(engine.peek(&stage(from), CALLED));
            lab.wait(engine.move_to_stage(&stage(from), &stage("b"), None, 9, CALLED)).jobs == 1
        }
    }
}
