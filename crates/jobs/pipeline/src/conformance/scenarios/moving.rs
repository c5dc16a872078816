//! Jobs that move from one engine to another.

use tollway_core::Name;

use super::super::Scenario;
use super::super::lab::{Lab, at, done, failure, new_job, stage};
use crate::*;

const MOVES: fn(&Capabilities) -> bool = |can| can.inspectable;

pub(super) const ALL: &[Scenario] = &[
    Scenario {
        name: "withdrawn jobs leave, with a mark until they have arrived",
        needs: MOVES,
        run: withdraw,
    },
    Scenario { name: "running jobs are not withdrawn", needs: MOVES, run: running },
    Scenario { name: "imported jobs keep tries, delay, evidence and death", needs: MOVES, run: import },
    Scenario { name: "a job is imported once", needs: MOVES, run: once },
    Scenario { name: "a job that moved away can come back", needs: MOVES, run: back },
    Scenario { name: "imported groups are held", needs: |can| can.inspectable && can.groups, run: groups },
];

fn take_all(lab: &Lab) -> Vec<Job> {
    take_all_at(lab, 50)
}

fn take_all_at(lab: &Lab, seconds: u64) -> Vec<Job> {
    lab.wait(lab.engine.withdraw(Filter::default(), "there", None, 1_000, at(seconds))).items
}

/// As the caller of `withdraw` passes them on.
fn with_evidence(lab: &Lab, jobs: Vec<Job>) -> Vec<MovedJob> {
    let moved = |job: Job| MovedJob { evidence: lab.wait(lab.engine.evidence(job.id)), job };
    jobs.into_iter().map(moved).collect()
}

fn withdraw(lab: &Lab) {
    lab.kill(new_job("a", "dead"), "HTTP 500", at(0));
    lab.enqueue(vec![new_job("a", "1"), new_job("b", "2"), new_job("a", "late").not_before(at(99))], at(0));
    let of_a = || Filter { stage: Some(stage("a")), ..Filter::default() };
    let page = lab.wait(lab.engine.withdraw(of_a(), "sqlite:there.db", None, 2, at(1)));
    let states: Vec<_> = page.items.iter().map(|job| (job.key.as_str(), job.state)).collect();
    assert_eq!(states, [("dead", State::Dead), ("1", State::Ready)]);
    assert_eq!(page.items[0].error, "HTTP 500");
    let rest = lab.wait(lab.engine.withdraw(of_a(), "sqlite:there.db", page.next, 2, at(1)));
    assert_eq!((rest.items.len(), rest.items[0].state, rest.next), (1, State::Delayed, None));
    assert_eq!(lab.claim("a", 9, at(1_000)).len(), 0);
    assert_eq!((lab.counts("a").of(State::Cancelled), lab.counts("b").of(State::Ready)), (3, 1));
    // A killed move finds them.
    let moving = Filter { error: Some(MOVING_MARK.to_owned()), ..Filter::default() };
    let marks: Vec<String> = lab.scan(&moving).into_iter().map(|job| job.error).collect();
    assert_eq!(marks.len(), 3);
    assert_eq!(moving_to(&marks[0]), Some(("sqlite:there.db", State::Dead)));
    let ids: Vec<JobId> = page.items.iter().map(|job| job.id).collect();
    assert_eq!(lab.wait(lab.engine.confirm_moved(ids.clone(), "sqlite:there.db")), 2);
    assert_eq!(lab.wait(lab.engine.confirm_moved(ids.clone(), "sqlite:there.db")), 0);
    assert_eq!(
        (lab.keys(moving), lab.job(ids[0]).error.as_str()),
        (vec!["late".to_owned()], "tollway migrate: moved to sqlite:there.db")
    );
}

fn running(lab: &Lab) {
    lab.enqueue(vec![new_job("a", "1"), new_job("a", "2")], at(0));
    let claimed = lab.claim_one("a", at(0));
    assert_eq!(take_all(lab).len(), 1);
    lab.commit(&claimed, done("b", &["1"]), at(51));
    // Its claim has expired: its worker is late.
    let late = lab.claim_one("b", at(52));
    lab.wait(lab.engine.peek(&stage("b"), at(10_000)));
    assert_eq!(take_all_at(lab, 10_000).len(), 1);
    assert_eq!(lab.finish(&late, done("c", &["1"]), at(10_001)), Finished::Late);
}

fn import(lab: &Lab) {
    let dead = lab.kill(new_job("a", "dead").group("g").unwrap(), "HTTP 500", at(0));
    lab.add(new_job("a", "again").priority(4), at(1));
    let claimed = lab.claim_one("a", at(1));
    let attempt = failure("timeout").detail("<html>");
    lab.commit(&claimed, Conclusion::Again { at: at(90), attempt }, at(1));
    let mut moved = with_evidence(lab, take_all(lab));
    // The same engine stands for the other one: a stage of another name does not know the keys.
    for one in &mut moved {
        one.job.stage = stage("z");
    }
    let imported = lab.wait(lab.engine.import(moved.clone(), at(60)));
    let ids: Vec<JobId> = imported
        .iter()
        .filter_map(|new| if let Enqueued::New(id) = new { Some(*id) } else { None })
        .collect();
    let jobs = [lab.job(ids[0]), lab.job(ids[1])];
    assert_eq!([jobs[0].state, jobs[1].state], [State::Dead, State::Delayed]);
    assert_eq!(
        (jobs[0].error.as_str(), jobs[0].failures, jobs[0].group.as_deref()),
        ("HTTP 500", 1, Some("g"))
    );
    assert_eq!((jobs[1].due_at, jobs[1].priority, jobs[1].claim_number), (at(90), 4, 1));
    assert_eq!(lab.wait(lab.engine.evidence(ids[0])), lab.wait(lab.engine.evidence(dead)));
    assert_eq!(lab.wait(lab.engine.evidence(ids[1]))[0].attempt.details(), "<html>");
    let counts = lab.counts("z");
    assert_eq!((counts.of(State::Dead), counts.of(State::Delayed), counts.events.enqueued), (1, 1, 2));
    // The claims go on from where they were, so that new evidence replaces none.
    let claimed = lab.claim_one("z", at(91));
    assert_eq!((claimed.claim.number, claimed.job.failures), (2, 1));
    lab.commit(&claimed, Conclusion::Dead { attempt: failure("x") }, at(92));
    assert_eq!(lab.wait(lab.engine.evidence(ids[1])).len(), 2);
}

fn once(lab: &Lab) {
    lab.enqueue(vec![new_job("a", "1"), new_job("a", "2")], at(0));
    let mut moved = with_evidence(lab, take_all(lab));
    // Killed before it was confirmed: the same jobs come again, and here they are known.
    let again = lab.wait(lab.engine.import(moved.clone(), at(60)));
    assert!(again.iter().all(|one| matches!(one, Enqueued::Duplicate(_))), "{again:?}");
    moved[0].job.stage = stage("z");
    let mixed = lab.wait(lab.engine.import(moved.clone(), at(60)));
    assert!(matches!(mixed[..], [Enqueued::New(_), Enqueued::Duplicate(_)]), "{mixed:?}");
    moved[1].job.state = State::Done;
    assert_eq!(lab.error(lab.engine.import(moved, at(61))).fault, EngineFault::Caller);
}

fn back(lab: &Lab) {
    let ids = [lab.add(new_job("a", "1"), at(0)), lab.kill(new_job("a2", "2"), "HTTP 500", at(0))];
    let old = lab.claim_one("a", at(1));
    lab.wait(lab.engine.peek(&stage("a"), at(10_000)));
    let mut moved = with_evidence(lab, take_all_at(lab, 10_000));
    lab.wait(lab.engine.confirm_moved(ids.to_vec(), "there"));
    moved[0].job.data = "{\"edited\": true}".to_owned();
    moved[0].job.priority = 3;
    // They were claimed once more there, or never.
    moved[1].job.claim_number = 7;
    let enqueued = lab.wait(lab.engine.import(moved.clone(), at(10_001)));
    assert_eq!(enqueued, ids.map(Enqueued::New));
    let dead = lab.job(ids[1]);
    assert_eq!((dead.state, dead.error.as_str(), dead.claim_number), (State::Dead, "HTTP 500", 7));
    assert_eq!(lab.wait(lab.engine.evidence(ids[1])).len(), 1);
    let claimed = lab.claim_one("a", at(10_002));
    assert_eq!((claimed.job.data.as_str(), claimed.job.priority), ("{\"edited\": true}", 3));
    assert_eq!(lab.finish(&old, done("b", &["1"]), at(10_003)), Finished::Late);
    lab.commit(&claimed, done("b", &["1"]), at(10_003));
    let counts = [lab.counts("a"), lab.counts("a2")];
    assert_eq!((counts[0].of(State::Done), counts[0].of(State::Cancelled)), (1, 0));
    assert_eq!(
        (counts[1].of(State::Dead), counts[1].of(State::Cancelled), counts[1].events.enqueued),
        (1, 0, 2)
    );
    // Both are here now: a second import changes nothing.
    let again = lab.wait(lab.engine.import(moved, at(10_004)));
    assert_eq!(again, ids.map(Enqueued::Duplicate));
    // What an operator cancelled stays so.
    lab.change(Filter { state: Some(State::Dead), ..Filter::default() }, Change::Cancel, at(10_005));
    let mut cancelled = MovedJob { job: dead, evidence: Vec::new() };
    cancelled.job.state = State::Ready;
    assert_eq!(lab.wait(lab.engine.import(vec![cancelled], at(10_006))), [Enqueued::Duplicate(ids[1])]);
}

fn groups(lab: &Lab) {
    let after = Some(vec![stage("tag")]);
    lab.set_stage("upload", StageChange { after, ..StageChange::default() }, at(0));
    let chunk = |at: &str, key: &str| new_job(at, key).group("g").unwrap();
    lab.enqueue(vec![chunk("tag", "1"), chunk("upload", "2")], at(0));
    assert_eq!(lab.counts("upload").of(State::Held), 1);
    // The one that is waited for leaves: here its group is complete.
    let first = Filter { stage: Some(stage("tag")), ..Filter::default() };
    lab.wait(lab.engine.withdraw(first, "there", None, 9, at(1)));
    assert_eq!(lab.counts("upload").of(State::Ready), 1);
    let uploads = take_all(lab);
    let rename = |jobs: Vec<Job>, to: &Name| -> Vec<MovedJob> {
        jobs.into_iter()
            .map(|job| MovedJob { job: Job { stage: to.clone(), ..job }, evidence: Vec::new() })
            .collect()
    };
    // There, a dead letter holds the group.
    lab.set_stage(
        "upload2",
        StageChange { after: Some(vec![stage("tag2")]), ..StageChange::default() },
        at(2),
    );
    let mut dead = rename(uploads.clone(), &stage("tag2"));
    dead[0].job.state = State::Dead;
    lab.wait(lab.engine.import(dead, at(3)));
    lab.wait(lab.engine.import(rename(uploads, &stage("upload2")), at(3)));
    assert_eq!((lab.counts("tag2").of(State::Dead), lab.counts("upload2").of(State::Held)), (1, 1));
    lab.change(Filter { state: Some(State::Dead), ..Filter::default() }, Change::Cancel, at(4));
    assert_eq!(lab.claim_keys("upload2", 9, at(5)), ["2"]);
}
