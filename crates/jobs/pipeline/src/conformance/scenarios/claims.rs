//! The fence, expiry, tries and evidence.

use tollway_core::Span;

use super::super::Scenario;
use super::super::lab::{Lab, VISIBILITY, at, done, failure, new_job, stage};
use crate::*;

pub(super) const ALL: &[Scenario] = &[
    Scenario { name: "a late answer changes nothing", needs: |_| true, run: late_answer },
    Scenario {
        name: "an expired claim may finish until it is taken over",
        needs: |_| true,
        run: expired_may_finish,
    },
    Scenario { name: "a taken over claim counts a crash", needs: |_| true, run: taken_over },
    Scenario { name: "a renewed claim does not expire", needs: |_| true, run: renewed },
    Scenario { name: "a released job uses no try", needs: |_| true, run: released },
    Scenario { name: "a repeated answer is recognised", needs: |can| can.atomic_hand_off, run: repeated },
    Scenario { name: "causes are counted apart", needs: |_| true, run: causes },
    Scenario { name: "evidence is bounded and keeps failures", needs: |can| can.inspectable, run: evidence },
    Scenario { name: "a dead worker's claims are abandoned", needs: |_| true, run: abandoned },
    Scenario { name: "a claim of another stage or job is late", needs: |_| true, run: wrong_claims },
];

fn late_answer(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    let slow = lab.claim_one("a", at(0));
    assert!(lab.claim("a", 1, at(899)).is_empty());
    let next = lab.claim_one("a", at(900));
    assert_eq!((slow.claim.number, next.claim.number), (1, 2));
    assert_eq!(lab.finish(&slow, done("b", &["1"]), at(901)), Finished::Late);
    assert_eq!(lab.finish(&slow, Conclusion::Dead { attempt: failure("x") }, at(901)), Finished::Late);
    assert_eq!(lab.wait(lab.engine.renew(vec![slow.claim.clone()], VISIBILITY, at(901))), [false]);
    assert_eq!(lab.wait(lab.engine.release(vec![slow.claim.clone()], at(901))), [false]);
    assert!(lab.claim("b", 1, at(901)).is_empty());
    lab.commit(&next, done("b", &["2"]), at(902));
    assert_eq!(lab.finish(&slow, done("b", &["3"]), at(903)), Finished::Late);
    let outputs: Vec<String> =
        lab.claim("b", 9, at(904)).into_iter().map(|claimed| claimed.job.data).collect();
    assert_eq!(outputs, ["2"]);
    if lab.engine.capabilities().exact_counts {
        assert_eq!(lab.counts("a").events.late, 3);
    }
}

fn expired_may_finish(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    let slow = lab.claim_one("a", at(0));
    // The engine has seen that it expired, but no worker took it.
    assert_eq!(lab.wait(lab.engine.peek(&stage("a"), at(10_000))).cost, Some(JobCost::OF_STAGE));
    assert_eq!(
        lab.finish(&slow, done("b", &["1"]), at(10_001)),
        Finished::Committed { outputs: 1, joined: 0 }
    );
    assert!(lab.claim("a", 1, at(10_002)).is_empty());
}

fn taken_over(lab: &Lab) {
    let id = lab.add(new_job("a", "k"), at(0));
    lab.claim_one("a", at(0));
    let next = lab.claim_one("a", at(5_000));
    assert_eq!((next.job.crashes, next.job.failures), (1, 0));
    if lab.engine.capabilities().inspectable {
        let evidence = lab.wait(lab.engine.evidence(id));
        assert_eq!((evidence.len(), evidence[0].number, evidence[0].attempt.cause()), (1, 1, Cause::Crash));
        assert_eq!((evidence[0].started_at, evidence[0].ended_at), (at(0), at(5_000)));
    }
}

fn renewed(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    let claimed = lab.claim_one("a", at(0));
    assert_eq!(lab.wait(lab.engine.renew(vec![claimed.claim.clone()], VISIBILITY, at(600))), [true]);
    assert!(lab.claim("a", 1, at(1_000)).is_empty());
    // Expired, not taken over: it can be renewed even now.
    assert!(lab.wait(lab.engine.peek(&stage("a"), at(1_500))).cost.is_some());
    assert_eq!(lab.wait(lab.engine.renew(vec![claimed.claim.clone()], VISIBILITY, at(1_501))), [true]);
    assert!(lab.claim("a", 1, at(1_600)).is_empty());
    assert_eq!(lab.claim_one("a", at(1_501 + 900)).claim.number, 2);
}

fn released(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    let claimed = lab.claim_one("a", at(0));
    assert_eq!(lab.wait(lab.engine.release(vec![claimed.claim.clone()], at(1))), [true]);
    let again = lab.claim_one("a", at(1));
    assert_eq!((again.job.failures, again.job.crashes, again.claim.number), (0, 0, 2));
    assert_eq!(lab.finish(&claimed, done("b", &[]), at(2)), Finished::Late);
}

fn repeated(lab: &Lab) {
    lab.enqueue(vec![new_job("a", "1"), new_job("a", "2")], at(0));
    let (first, second) = (lab.claim_one("a", at(0)), lab.claim_one("a", at(0)));
    lab.commit(&first, done("b", &["1", "2"]), at(1));
    assert_eq!(lab.finish(&first, done("b", &["1", "2"]), at(2)), Finished::Repeated);
    let again = Conclusion::Again { at: at(50), attempt: failure("x") };
    lab.commit(&second, again.clone(), at(1));
    assert_eq!(lab.finish(&second, again, at(2)), Finished::Repeated);
    assert_eq!(lab.claim("b", 9, at(3)).len(), 2);
    assert_eq!(lab.claim_one("a", at(50)).job.failures, 1);
}

fn causes(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    for (n, cause) in
        [Cause::Failure, Cause::RateLimited, Cause::Crash, Cause::RateLimited].into_iter().enumerate()
    {
        let claimed = lab.claim_one("a", at(n as u64));
        let attempt = Attempt::new(cause, "no");
        lab.commit(&claimed, Conclusion::Again { at: at(0), attempt }, at(n as u64));
    }
    let job = lab.claim_one("a", at(9)).job;
    assert_eq!((job.failures, job.crashes, job.rate_limited), (1, 1, 2));
    if lab.engine.capabilities().exact_counts {
        let events = lab.counts("a").events;
        assert_eq!((events.failures, events.crashes, events.rate_limited, events.claimed), (1, 1, 2, 5));
    }
}

fn evidence(lab: &Lab) {
    let id = lab.add(new_job("a", "k"), at(0));
    let rounds = bounds::EVIDENCE_MAX as u64 + 10;
    for n in 0..rounds {
        let cause = if n == 1 { Cause::Failure } else { Cause::RateLimited };
        let attempt = Attempt::new(cause, &"e".repeat(5_000)).detail(&"é".repeat(5_000));
        let claimed = lab.claim_one("a", at(n));
        lab.commit(&claimed, Conclusion::Again { at: at(n), attempt }, at(n));
    }
    let evidence = lab.wait(lab.engine.evidence(id));
    assert_eq!(evidence.len(), bounds::EVIDENCE_MAX);
    let numbers: Vec<u64> = evidence.iter().map(|evidence| evidence.number).collect();
    assert_eq!((numbers[0], numbers[1], numbers.last()), (2, 12, Some(&rounds)), "the failure stays");
    assert_eq!(evidence[0].attempt.error().len(), bounds::ERROR_BYTES_MAX);
    assert_eq!(evidence[0].attempt.details().len(), bounds::DETAIL_BYTES_MAX);
    assert_eq!(evidence[0].worker, "worker");
}

fn abandoned(lab: &Lab) {
    lab.enqueue(vec![new_job("a", "1"), new_job("a", "2")], at(0));
    let claim = |worker| {
        let request = ClaimRequest::new(&stage("a"), worker, Span::from_hours(10));
        lab.wait(lab.engine.claim(request, at(0))).remove(0)
    };
    let (dead, alive) = (claim("dead"), claim("alive"));
    assert_eq!(lab.wait(lab.engine.abandon(Some("dead"), at(5))), 1);
    let again = lab.claim_one("a", at(5));
    assert_eq!((again.job.id, again.job.crashes), (dead.job.id, 1));
    assert!(lab.claim("a", 1, at(6)).is_empty());
    assert_eq!(lab.wait(lab.engine.abandon(None, at(7))), 2);
    assert_eq!(lab.claim("a", 9, at(7)).len(), 2);
    assert_eq!(lab.finish(&alive, done("b", &[]), at(8)), Finished::Late);
}

fn wrong_claims(lab: &Lab) {
    lab.add(new_job("a", "k"), at(0));
    lab.add(new_job("b", "k"), at(0));
    let claimed = lab.claim_one("a", at(0));
    for claim in [
        Claim { stage: stage("b"), ..claimed.claim.clone() },
        Claim { stage: stage("unknown"), ..claimed.claim.clone() },
        Claim { number: 2, ..claimed.claim.clone() },
        Claim { number: 0, ..claimed.claim.clone() },
        Claim { job: JobId::new(u64::MAX), ..claimed.claim.clone() },
    ] {
        assert_eq!(lab.wait(lab.engine.finish(claim.clone(), done("c", &["1"]), at(1))), Finished::Late);
        assert_eq!(lab.wait(lab.engine.renew(vec![claim], VISIBILITY, at(1))), [false]);
    }
    lab.commit(&claimed, done("c", &[]), at(2));
}
