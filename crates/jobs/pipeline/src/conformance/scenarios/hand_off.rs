//! From one stage to the next.

use tollway_core::Timestamp;

use super::super::Scenario;
use super::super::lab::{Lab, at, done, new_job, stage};
use crate::*;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "outputs have keys of their own", needs: |_| true, run: output_keys },
    Scenario { name: "a failed hand-off changes nothing", needs: |can| can.atomic_hand_off, run: atomic },
    Scenario {
        name: "a purged key hands on again",
        needs: |can| can.inspectable && can.groups,
        run: purged_key,
    },
    Scenario { name: "outputs join one job", needs: |_| true, run: join },
    Scenario { name: "outputs are bounded", needs: |_| true, run: bounded },
    Scenario { name: "results are kept in order", needs: |can| can.inspectable, run: results },
];

fn output_keys(lab: &Lab) {
    lab.add(new_job("a", "k").group("g").unwrap().priority(3), at(0));
    let claimed = lab.claim_one("a", at(0));
    assert_eq!(
        lab.finish(&claimed, done("b", &["1", "2", "3"]), at(1)),
        Finished::Committed { outputs: 3, joined: 0 }
    );
    let jobs: Vec<Job> = lab.claim("b", 9, at(2)).into_iter().map(|claimed| claimed.job).collect();
    let mut keys: Vec<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["k>a.0", "k>a.1", "k>a.2"]);
    assert!(jobs.iter().all(|job| job.group.as_deref() == Some("g") && job.failures == 0));
    if lab.engine.capabilities().ordered {
        assert!(jobs.iter().all(|job| job.priority == 3));
    }
}

fn atomic(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    // A caller has taken the key of the second output.
    lab.add(new_job("b", "k>a.1"), at(0));
    let claimed = lab.claim_one("a", at(0));
    let error = lab.error(lab.engine.finish(claimed.claim.clone(), done("b", &["1", "2"]), at(1)));
    assert_eq!(error.fault, EngineFault::Caller, "{error}");
    assert!(error.message.contains("k>a.1"), "{error}");
    let (a, b) = (lab.counts("a"), lab.counts("b"));
    assert_eq!((a.of(State::Running), a.of(State::Done), b.of(State::Ready)), (1, 0, 1));
    assert_eq!((a.events.completed, b.events.enqueued), (0, 1));
    // The claim is still open.
    lab.commit(&claimed, done("c", &["1", "2"]), at(2));
    assert_eq!(lab.counts("c").of(State::Ready), 2);
}

fn purged_key(lab: &Lab) {
    let finish_once = |seconds| {
        let job = lab.add(new_job("a", "k").group("g").unwrap(), at(seconds));
        let claimed = lab.claim_one("a", at(seconds));
        let finished = lab.finish(&claimed, done("b", &["1", "2"]), at(seconds));
        assert_eq!(finished, Finished::Committed { outputs: 2, joined: 0 });
        assert_eq!(lab.finish(&claimed, done("b", &["1", "2"]), at(seconds)), Finished::Repeated);
        assert_eq!(lab.wait(lab.engine.purge(&stage("a"), Timestamp::MAX, 9)), 1);
        job
    };
    finish_once(0);
    let second = finish_once(1);
    let in_b = || lab.keys(Filter { stage: Some(stage("b")), ..Filter::default() });
    let again = |index: usize, job: JobId| format!("k>a.{index}@{job}");
    assert_eq!(in_b(), ["k>a.0", "k>a.1", &again(0, second), &again(1, second)]);
    // A key that is free again is used again, and the held outputs of all three are released together.
    let first_output = lab.claim_one("b", at(2));
    lab.commit(&first_output, done("c", &[]), at(2));
    assert_eq!(lab.wait(lab.engine.purge(&stage("b"), Timestamp::MAX, 9)), 1);
    let after = Some(vec![stage("a")]);
    lab.set_stage("b", StageChange { after, ..StageChange::default() }, at(3));
    let third = finish_once(3);
    let expected = ["k>a.1", &again(0, second), &again(1, second), "k>a.0", &again(1, third)];
    let mut claimed = lab.claim_keys("b", 9, at(4));
    assert_eq!(in_b().len(), 5);
    claimed.sort_unstable();
    let mut expected = expected.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(claimed, expected);
    let counts = lab.counts("b");
    assert_eq!((counts.events.enqueued, counts.of(State::Running)), (6, 5));
}

fn join(lab: &Lab) {
    let upload = || Conclusion::Done {
        outputs: vec![
            Output::new(&stage("upload"), "{\"job_id\": \"job-1\"}").unwrap().join("job-1").unwrap(),
        ],
        result: None,
    };
    lab.enqueue(vec![new_job("a", "1"), new_job("a", "2")], at(0));
    let claimed = lab.claim("a", 2, at(0));
    assert_eq!(lab.finish(&claimed[0], upload(), at(1)), Finished::Committed { outputs: 1, joined: 0 });
    assert_eq!(lab.finish(&claimed[1], upload(), at(1)), Finished::Committed { outputs: 0, joined: 1 });
    assert_eq!(lab.claim_keys("upload", 9, at(2)), ["job-1"]);
}

fn bounded(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    let claimed = lab.claim_one("a", at(0));
    let too_many = done("b", &vec!["1"; bounds::OUTPUTS_MAX + 1]);
    let error = lab.error(lab.engine.finish(claimed.claim.clone(), too_many, at(1)));
    assert_eq!(error.fault, EngineFault::Caller);
    lab.commit(&claimed, done("b", &[]), at(1));
}

fn results(lab: &Lab) {
    lab.enqueue((0..5).map(|n| new_job("a", &n.to_string())).collect(), at(0));
    for claimed in lab.claim("a", 5, at(0)).iter().rev() {
        let result = (claimed.job.key != "3").then(|| format!("{{\"of\": {}}}", claimed.job.key));
        lab.commit(claimed, Conclusion::Done { outputs: vec![], result }, at(7));
    }
    let first = lab.wait(lab.engine.results(&stage("a"), None, 3));
    let second = lab.wait(lab.engine.results(&stage("a"), first.next, 3));
    let all: Vec<_> = first.items.into_iter().chain(second.items).collect();
    let keys: Vec<&str> = all.iter().map(|result| result.key.as_str()).collect();
    assert_eq!((keys, second.next), (vec!["0", "1", "2", "3", "4"], None));
    assert_eq!((all[2].result.as_deref(), all[3].result.as_deref()), (Some("{\"of\": 2}"), None));
    assert_eq!((all[2].finished_at, all[2].number), (at(7), 1));
    assert!(lab.wait(lab.engine.results(&stage("unknown"), None, 3)).items.is_empty());
}
