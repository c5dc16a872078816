//! Dead letters, filters, edits, retention.

use tollway_core::Timestamp;

use super::super::Scenario;
use super::super::lab::{Lab, at, done, failure, new_job, stage};
use crate::*;

const INSPECTS: fn(&Capabilities) -> bool = |can| can.inspectable;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "dead letters carry their evidence", needs: INSPECTS, run: dead_letters },
    Scenario { name: "filters select", needs: INSPECTS, run: filters },
    Scenario { name: "redriven jobs have all their tries", needs: INSPECTS, run: redrive },
    Scenario { name: "a dead letter is edited, a running job is not", needs: INSPECTS, run: edit },
    Scenario { name: "cancelled jobs leave, and their answers are late", needs: INSPECTS, run: cancel },
    Scenario { name: "a cancelled key is a new job only if that is meant", needs: INSPECTS, run: again },
    Scenario {
        name: "a job that moved to another engine is not enqueued again",
        needs: INSPECTS,
        run: moved_away,
    },
    Scenario {
        name: "reprioritised jobs go first",
        needs: |can| can.inspectable && can.ordered,
        run: reprioritise,
    },
    Scenario { name: "changes go in steps", needs: INSPECTS, run: steps },
    Scenario { name: "purge forgets what has left", needs: INSPECTS, run: purge },
    Scenario { name: "samples are kept by minute, then by hour", needs: INSPECTS, run: samples },
];

fn in_state(state: State) -> Filter {
    Filter { state: Some(state), ..Filter::default() }
}

fn dead_letters(lab: &Lab) {
    let id = lab.add(new_job("a", "k"), at(0));
    for n in 0..2 {
        let claimed = lab.claim_one("a", at(n));
        lab.commit(&claimed, Conclusion::Again { at: at(n + 1), attempt: failure("timeout") }, at(n));
    }
    let last = lab.claim_one("a", at(3));
    assert_eq!(last.job.failures, 2);
    let attempt = failure("HTTP 500").detail("<html>");
    lab.commit(&last, Conclusion::Dead { attempt: attempt.clone() }, at(4));
    assert!(lab.claim("a", 1, Timestamp::MAX).is_empty());
    let job = lab.job(id);
    assert_eq!((job.state, job.failures, job.error.as_str()), (State::Dead, 3, "HTTP 500"));
    let evidence = lab.wait(lab.engine.evidence(id));
    assert_eq!((evidence.len(), &evidence[2].attempt), (3, &attempt));
    assert_eq!(lab.counts("a").of(State::Dead), 1);
}

fn filters(lab: &Lab) {
    lab.kill(new_job("a", "1").group("g").unwrap(), "Timeout of vendor", at(0));
    lab.kill(new_job("b", "2").group("h").unwrap(), "HTTP 500", at(0));
    lab.kill(new_job("b", "3").group("g").unwrap(), "vendor TIMEOUT", at(0));
    lab.add(new_job("b", "4").group("g").unwrap(), at(0));
    let dead = in_state(State::Dead);
    let error = |text: &str| Filter { error: Some(text.to_owned()), ..dead.clone() };
    assert_eq!(lab.keys(dead.clone()), ["1", "2", "3"]);
    assert_eq!(lab.keys(error("timeout")), ["1", "3"]);
    assert_eq!(lab.keys(error("100%_")), [""; 0]);
    assert_eq!(lab.keys(Filter { stage: Some(stage("b")), ..dead.clone() }), ["2", "3"]);
    assert_eq!(lab.keys(Filter { group: Some("g".to_owned()), ..Filter::default() }), ["1", "3", "4"]);
    assert_eq!(lab.keys(Filter { key: Some("4".to_owned()), ..Filter::default() }), ["4"]);
    assert_eq!(lab.keys(Filter { stage: Some(stage("unknown")), ..Filter::default() }), [""; 0]);
    assert_eq!(lab.wait(lab.engine.matching(error("timeout"))), 2);
    assert_eq!(lab.wait(lab.engine.matching(Filter::default())), 4);
}

fn redrive(lab: &Lab) {
    let id = lab.kill(new_job("a", "1"), "timeout", at(0));
    lab.kill(new_job("a", "2"), "HTTP 400", at(0));
    let timeouts = Filter { error: Some("timeout".to_owned()), ..Filter::default() };
    assert_eq!(lab.change(timeouts.clone(), Change::Redrive, at(1)), 1);
    let claimed = lab.claim_one("a", at(2));
    assert_eq!((claimed.job.id, claimed.job.failures, claimed.claim.number), (id, 0, 2));
    // It is not dead any more.
    assert_eq!(lab.change(timeouts, Change::Redrive, at(3)), 0);
    assert_eq!(lab.wait(lab.engine.evidence(id)).len(), 1);
    assert!(lab.claim("a", 1, at(3)).is_empty());
}

fn edit(lab: &Lab) {
    let id = lab.kill(new_job("a", "k"), "bad input", at(0));
    let edit = Edit::default().data("{\"fixed\": true}").unwrap().priority(4);
    assert_eq!(lab.wait(lab.engine.edit(id, edit.clone(), at(1))), Edited::Changed);
    assert_eq!(lab.change(Filter { job: Some(id), ..Filter::default() }, Change::Redrive, at(2)), 1);
    let claimed = lab.claim_one("a", at(3));
    assert_eq!((claimed.job.data.as_str(), claimed.job.priority), ("{\"fixed\": true}", 4));
    assert_eq!(lab.wait(lab.engine.edit(id, edit.clone(), at(4))), Edited::Refused(State::Running));
    // Its claim expires: the job may be edited, and the old worker's answer is of the old data.
    lab.wait(lab.engine.peek(&stage("a"), at(10_000)));
    assert_eq!(lab.wait(lab.engine.edit(id, edit.clone(), at(10_000))), Edited::Changed);
    assert_eq!(lab.finish(&claimed, done("b", &["1"]), at(10_001)), Finished::Late);
    assert_eq!(lab.wait(lab.engine.edit(JobId::new(u64::MAX), edit, at(5))), Edited::Missing);
}

fn cancel(lab: &Lab) {
    let jobs = ["ready", "delayed", "running"].map(|key| new_job(key, key)).to_vec();
    lab.enqueue(jobs, at(0));
    lab.add(new_job("delayed", "delayed 2").not_before(at(99)), at(0));
    let running = lab.claim_one("running", at(0));
    lab.kill(new_job("dead", "dead"), "x", at(0));
    let finished = lab.add(new_job("done", "done"), at(0));
    let claimed = lab.claim_one("done", at(0));
    lab.commit(&claimed, done("b", &[]), at(0));
    assert_eq!(lab.change(in_state(State::Dead), Change::Cancel, at(1)), 1);
    assert_eq!(lab.change(Filter::default(), Change::Cancel, at(1)), 4);
    assert_eq!(lab.keys(in_state(State::Cancelled)).len(), 5);
    assert_eq!(lab.job(finished).state, State::Done);
    assert_eq!(lab.finish(&running, done("b", &["1"]), at(2)), Finished::Late);
    for from in ["ready", "delayed", "running", "dead"] {
        assert!(lab.claim(from, 9, Timestamp::MAX).is_empty(), "{from}");
    }
    // A cancelled key is not enqueued again.
    assert!(matches!(lab.enqueue(vec![new_job("ready", "ready")], at(3))[..], [Enqueued::Cancelled(_)]));
}

fn again(lab: &Lab) {
    let old = lab.kill(new_job("a", "dropped").group("g").unwrap(), "HTTP 400", at(0));
    let running = lab.claim_one_of(new_job("a", "running"), at(0));
    lab.add(new_job("a", "waits"), at(0));
    lab.change(Filter { job: Some(old), ..Filter::default() }, Change::Cancel, at(1));
    lab.change(Filter { job: Some(running.job.id), ..Filter::default() }, Change::Cancel, at(1));
    let keys = ["dropped", "running", "waits", "new"];
    let jobs = || keys.map(|key| new_job("a", key)).to_vec();
    let first = lab.enqueue(jobs(), at(2));
    assert!(
        matches!(first[..], [Enqueued::Cancelled(id), Enqueued::Cancelled(_), Enqueued::Duplicate(_), Enqueued::New(_)] if id == old),
        "{first:?}"
    );
    let corrected = NewJob::new(&stage("a"), "dropped", "{\"fixed\": true}").unwrap();
    let mut jobs: Vec<NewJob> = jobs().into_iter().map(NewJob::again).collect();
    jobs[0] = corrected.again();
    let second = lab.enqueue(jobs.clone(), at(3));
    let [Enqueued::New(dropped), Enqueued::New(ran), Enqueued::Duplicate(_), Enqueued::Duplicate(_)] =
        second[..]
    else {
        panic!("{second:?}")
    };
    assert!(dropped > old && ran > running.job.id, "numbers are not used again");
    let job = lab.job(dropped);
    assert_eq!((job.failures, job.data.as_str(), job.error.as_str()), (0, "{\"fixed\": true}", ""));
    assert!(lab.wait(lab.engine.evidence(dropped)).is_empty());
    assert_eq!((lab.counts("a").of(State::Cancelled), lab.counts("a").of(State::Ready)), (0, 4));
    // Twice is once, and the old claim is late.
    assert!(lab.enqueue(jobs, at(4)).iter().all(|one| matches!(one, Enqueued::Duplicate(_))));
    assert_eq!(lab.finish(&running, done("b", &["1"]), at(5)), Finished::Late);
    let mut claimed = lab.claim_keys("a", 9, at(6));
    claimed.sort();
    assert_eq!(claimed, ["dropped", "new", "running", "waits"]);
}

/// Another engine has such a job: it would be done twice.
fn moved_away(lab: &Lab) {
    let id = lab.add(new_job("a", "k"), at(0));
    lab.wait(lab.engine.withdraw(Filter::default(), "there", None, 9, at(1)));
    let again = || vec![new_job("a", "k").again()];
    assert_eq!(lab.enqueue(again(), at(2)), [Enqueued::Duplicate(id)]);
    lab.wait(lab.engine.confirm_moved(vec![id], "there"));
    assert_eq!(lab.enqueue(again(), at(3)), [Enqueued::Duplicate(id)]);
}

fn reprioritise(lab: &Lab) {
    lab.enqueue(
        vec![new_job("a", "1"), new_job("a", "2").group("urgent").unwrap(), new_job("a", "3")],
        at(0),
    );
    let urgent = Filter { group: Some("urgent".to_owned()), ..Filter::default() };
    assert_eq!(lab.change(urgent, Change::Reprioritise(9), at(1)), 1);
    assert_eq!(lab.claim_keys("a", 9, at(2)), ["2", "1", "3"]);
}

fn steps(lab: &Lab) {
    lab.enqueue((0..10).map(|n| new_job("a", &n.to_string())).collect(), at(0));
    let (mut after, mut counts) = (None, Vec::new());
    loop {
        let step = lab.engine.change(Filter::default(), Change::Reprioritise(1), after, 4, at(1));
        let changed = lab.wait(step);
        counts.push(changed.jobs);
        after = changed.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(counts, [4, 4, 2]);
}

fn purge(lab: &Lab) {
    lab.enqueue((0..4).map(|n| new_job("a", &n.to_string())).collect(), at(0));
    let claimed = lab.claim("a", 3, at(0));
    lab.commit(&claimed[0], done("b", &[]), at(10));
    lab.commit(&claimed[1], done("b", &[]), at(20));
    lab.commit(&claimed[2], Conclusion::Dead { attempt: failure("x") }, at(1));
    let purge = |before| lab.wait(lab.engine.purge(&stage("a"), before, 100));
    assert_eq!(purge(at(10)), 0);
    assert_eq!(purge(at(11)), 1);
    assert_eq!(lab.keys(Filter::default()), ["1", "2", "3"]);
    let counts = lab.counts("a");
    assert_eq!((counts.of(State::Done), counts.events.completed), (1, 2));
    assert_eq!(purge(Timestamp::MAX), 1);
    assert!(lab.wait(lab.engine.results(&stage("a"), None, 9)).items.is_empty());
    // A purged key can be enqueued again, as a new job; the late answer of the old one is late.
    let new = lab.add(new_job("a", "0"), at(30));
    assert!(new > claimed[2].job.id);
    assert_eq!(lab.finish(&claimed[0], done("b", &["1"]), at(31)), Finished::Late);
}

fn samples(lab: &Lab) {
    // The first moment of an hour.
    let minute = |n: u64| Timestamp::from_secs(500_000 * 3_600 + 60 * n);
    lab.add(new_job("a", "1"), minute(0));
    let times = |since| -> Vec<Timestamp> {
        lab.wait(lab.engine.samples(since)).into_iter().map(|sample| sample.at).collect()
    };
    lab.wait(lab.engine.record(minute(0)));
    lab.wait(lab.engine.record(minute(1)));
    // A second one in a minute is not kept: another process may have been first.
    lab.wait(lab.engine.record(minute(1).plus(tollway_core::Span::from_secs(30))));
    assert_eq!(times(Timestamp::EPOCH), [minute(0), minute(1)]);
    assert_eq!(times(minute(1)), [minute(1)]);
    let kept = lab.wait(lab.engine.samples(minute(1)));
    assert_eq!(kept[0].stages, lab.wait(lab.engine.counts()));
    lab.wait(lab.engine.record(minute(62)));
    assert_eq!(times(Timestamp::EPOCH), [minute(0), minute(62)]);
    lab.wait(lab.engine.record(minute(62).plus(SAMPLES_KEPT)));
    assert_eq!(times(Timestamp::EPOCH), [minute(62).plus(SAMPLES_KEPT)]);
}
