//! Enqueueing, order, delay, pausing.

use tollway_core::Span;

use super::super::Scenario;
use super::super::lab::{Lab, at, new_job, stage};
use crate::*;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "a key is enqueued once", needs: |_| true, run: key_once },
    Scenario { name: "data is kept byte for byte", needs: |_| true, run: data_as_given },
    Scenario { name: "a key of a done job is still a duplicate", needs: |_| true, run: key_of_done },
    Scenario { name: "claims go by priority, then age", needs: |can| can.ordered, run: order },
    Scenario { name: "a retried job keeps its age", needs: |can| can.ordered, run: retry_keeps_age },
    Scenario { name: "claims ask for a cost", needs: |can| can.claim_by_cost, run: cost },
    Scenario { name: "delayed jobs wait", needs: |_| true, run: delay },
    Scenario { name: "a paused stage gives no job", needs: |_| true, run: paused },
    Scenario { name: "batches are bounded", needs: |_| true, run: bounded },
];

fn key_once(lab: &Lab) {
    let first = lab.add(new_job("a", "k"), at(0));
    let again = lab.enqueue(vec![new_job("a", "k").priority(5), new_job("a", "l")], at(1));
    assert_eq!(again[0], Enqueued::Duplicate(first));
    let Enqueued::New(second) = again[1] else { panic!("{again:?}") };
    assert!(second > first);
    // Another stage, another job. And twice in one batch is once.
    let batch = lab.enqueue(vec![new_job("b", "k"), new_job("b", "k")], at(2));
    let [Enqueued::New(new), Enqueued::Duplicate(same)] = batch[..] else { panic!("{batch:?}") };
    assert_eq!(new, same);
    assert_eq!(lab.claim("a", 10, at(3)).len(), 2);
    assert_eq!(lab.claim("b", 10, at(3)).len(), 1);
}

fn data_as_given(lab: &Lab) {
    let data = "{ \"b\" : 1.50,\n \"a\":\"\\u00e9 é\" }";
    let job = NewJob::new(&stage("a"), "k", data).unwrap().group("job-1").unwrap();
    lab.add(job, at(0));
    let job = lab.claim_one("a", at(1)).job;
    assert_eq!((job.data.as_str(), job.group.as_deref()), (data, Some("job-1")));
}

fn key_of_done(lab: &Lab) {
    let id = lab.add(new_job("a", "k"), at(0));
    let claimed = lab.claim_one("a", at(1));
    lab.commit(&claimed, Conclusion::Done { outputs: vec![], result: None }, at(2));
    assert_eq!(lab.enqueue(vec![new_job("a", "k")], at(3)), [Enqueued::Duplicate(id)]);
    assert!(lab.claim("a", 1, at(3)).is_empty());
}

fn order(lab: &Lab) {
    let jobs = [("low", -1), ("first", 0), ("second", 0), ("high", 7), ("higher", 8)];
    lab.enqueue(jobs.map(|(key, priority)| new_job("a", key).priority(priority)).to_vec(), at(0));
    assert_eq!(lab.claim_keys("a", 2, at(1)), ["higher", "high"]);
    assert_eq!(lab.claim_keys("a", 9, at(1)), ["first", "second", "low"]);
}

fn retry_keeps_age(lab: &Lab) {
    lab.enqueue(vec![new_job("a", "first"), new_job("a", "second")], at(0));
    let first = lab.claim_one("a", at(1));
    let attempt = Attempt::new(Cause::Failure, "timeout");
    lab.commit(&first, Conclusion::Again { at: at(60), attempt }, at(2));
    lab.add(new_job("a", "third"), at(3));
    assert_eq!(lab.wait(lab.engine.peek(&stage("a"), at(4))).next_at, Some(at(60)));
    assert_eq!(lab.claim_keys("a", 2, at(60)), ["first", "second"]);
}

fn cost(lab: &Lab) {
    let large = JobCost::new([("gemini", "tokens", 4_000)]).unwrap();
    lab.enqueue(
        vec![new_job("a", "1"), new_job("a", "2").cost(large.clone()).priority(1), new_job("a", "3")],
        at(0),
    );
    assert_eq!(lab.wait(lab.engine.peek(&stage("a"), at(1))).cost, Some(large.clone()));
    let ask = |cost| {
        let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(60)).count(5).cost(cost);
        let claimed = lab.wait(lab.engine.claim(request, at(1)));
        claimed.into_iter().map(|claimed| claimed.job.key).collect::<Vec<_>>()
    };
    assert_eq!(ask(JobCost::OF_STAGE), ["1", "3"]);
    assert_eq!(ask(JobCost::OF_STAGE), [""; 0]);
    assert_eq!(ask(large), ["2"]);
    assert_eq!(lab.wait(lab.engine.peek(&stage("a"), at(1))).cost, None);
}

fn delay(lab: &Lab) {
    lab.add(new_job("a", "later").not_before(at(100)), at(0));
    assert!(lab.claim("a", 1, at(99)).is_empty());
    let peek = lab.wait(lab.engine.peek(&stage("a"), at(99)));
    assert_eq!((peek.cost, peek.next_at), (None, Some(at(100))));
    assert_eq!(lab.claim_keys("a", 1, at(100)), ["later"]);
}

fn paused(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    lab.pause("a", true);
    assert!(lab.claim("a", 1, at(1)).is_empty());
    assert!(lab.wait(lab.engine.peek(&stage("a"), at(1))).paused);
    let concurrency = StageChange { concurrency: Some(Some(3)), ..StageChange::default() };
    lab.set_stage("a", concurrency, at(2));
    let settings = lab.wait(lab.engine.stages());
    assert!(settings[0].paused && settings[0].concurrency == Some(3), "{settings:?}");
    lab.pause("a", false);
    assert_eq!(lab.claim_keys("a", 1, at(3)), ["k"]);
}

fn bounded(lab: &Lab) {
    let jobs = (0..=bounds::BATCH_MAX).map(|n| new_job("a", &n.to_string())).collect();
    assert_eq!(lab.error(lab.engine.enqueue(jobs, at(0))).fault, EngineFault::Caller);
    let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(1)).count(bounds::BATCH_MAX + 1);
    assert_eq!(lab.error(lab.engine.claim(request, at(0))).fault, EngineFault::Caller);
}
