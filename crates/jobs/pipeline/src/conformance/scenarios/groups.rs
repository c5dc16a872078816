//! Stages that wait for whole groups.

use super::super::Scenario;
use super::super::lab::{Lab, at, done, failure, new_job, stage};
use crate::*;

const GROUPS: fn(&Capabilities) -> bool = |can| can.groups;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "a stage waits for the whole group", needs: GROUPS, run: waits },
    Scenario {
        name: "a dead letter holds its group until it is dropped",
        needs: GROUPS,
        run: dead_letter_holds,
    },
    Scenario { name: "jobs without a group are not held", needs: GROUPS, run: without_group },
    Scenario { name: "groups are counted", needs: |can| can.groups && can.inspectable, run: counted },
];

fn gate(lab: &Lab) {
    let after = Some(vec![stage("tag"), stage("extract")]);
    lab.set_stage("upload", StageChange { after, ..StageChange::default() }, at(0));
}

fn chunk(at: &str, key: &str, group: &str) -> NewJob {
    new_job(at, key).group(group).unwrap()
}

fn waits(lab: &Lab) {
    gate(lab);
    lab.enqueue(vec![chunk("tag", "1", "g"), chunk("tag", "2", "g"), chunk("tag", "3", "h")], at(0));
    let tagged = lab.claim("tag", 3, at(0));
    // Two of three leave for the stage that is waited for, too.
    lab.commit(&tagged[0], done("extract", &["1"]), at(1));
    lab.commit(&tagged[2], done("extract", &["3"]), at(1));
    for extracted in lab.claim("extract", 9, at(2)) {
        lab.commit(&extracted, done("upload", &["1"]), at(3));
    }
    // Group h is complete; of group g a job is still in the first stage.
    let uploads = lab.claim("upload", 9, at(4));
    assert_eq!(
        uploads.iter().map(|claimed| claimed.job.key.as_str()).collect::<Vec<_>>(),
        ["3>tag.0>extract.0"]
    );
    lab.commit(&tagged[1], done("extract", &["2"]), at(5));
    assert!(lab.claim("upload", 9, at(5)).is_empty());
    let extracted = lab.claim_one("extract", at(6));
    lab.commit(&extracted, done("upload", &["2"]), at(7));
    assert_eq!(lab.claim("upload", 9, at(7)).len(), 2);
}

fn dead_letter_holds(lab: &Lab) {
    gate(lab);
    lab.enqueue(vec![chunk("extract", "1", "g"), chunk("extract", "2", "g")], at(0));
    let claimed = lab.claim("extract", 2, at(0));
    lab.commit(&claimed[0], done("upload", &["1"]), at(1));
    lab.commit(&claimed[1], Conclusion::Dead { attempt: failure("x") }, at(1));
    assert!(lab.claim("upload", 9, at(2)).is_empty());
    assert_eq!(lab.counts("upload").of(State::Held), 1);
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(lab.change(dead, Change::Cancel, at(3)), 1);
    assert_eq!(lab.claim("upload", 9, at(4)).len(), 1);
}

fn without_group(lab: &Lab) {
    gate(lab);
    lab.enqueue(vec![chunk("tag", "1", "g"), chunk("upload", "2", "g"), new_job("upload", "3")], at(0));
    assert_eq!(lab.claim_keys("upload", 9, at(1)), ["3"]);
    // A job of a group that is nowhere else is ready at once; and so are all when the stage waits no more.
    lab.add(chunk("upload", "4", "other"), at(2));
    assert_eq!(lab.claim_keys("upload", 9, at(2)), ["4"]);
    lab.set_stage("upload", StageChange { after: Some(vec![]), ..StageChange::default() }, at(3));
    assert_eq!(lab.claim_keys("upload", 9, at(3)), ["2"]);
    let itself = StageChange { after: Some(vec![stage("upload")]), ..StageChange::default() };
    let error = lab.error(lab.engine.set_stage(&stage("upload"), itself, at(4)));
    assert_eq!(error.fault, EngineFault::Caller);
}

fn counted(lab: &Lab) {
    lab.enqueue(vec![chunk("tag", "1", "g"), chunk("tag", "2", "g"), chunk("tag", "3", "h")], at(0));
    let claimed = lab.claim_one("tag", at(0));
    lab.commit(&claimed, done("extract", &["1", "2"]), at(1));
    let counts = lab.wait(lab.engine.group_counts("g"));
    let of = |name: &str, state| {
        counts.iter().find(|counts| counts.stage.as_str() == name).map_or(0, |counts| counts.of(state))
    };
    assert_eq!((of("tag", State::Done), of("tag", State::Ready), of("extract", State::Ready)), (1, 1, 2));
    assert!(lab.wait(lab.engine.group_counts("unknown")).is_empty());
}
