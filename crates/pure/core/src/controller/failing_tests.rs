//! Only a success raises the rate of `auto`; a vendor that fails is called less.

use super::tests::{Rig, TIMEOUT};
use super::*;

/// Reports a second's calls, of which so many were accepted and so many failed.
fn second(rig: &mut Rig, share: fn(u64) -> (u64, u64)) -> Pace {
    rig.pass(1);
    let calls = rig.pace.rate.div_ceil(ONE_CALL);
    rig.grants += calls;
    let (accepted, failed) = share(calls);
    rig.pace = rig.controller.report(&Report {
        now: rig.now,
        grants: rig.grants,
        accepted,
        answered: calls,
        failed,
        timeout: TIMEOUT,
        accepted_cut: rig.pace.cut,
        refusal: None,
        quotas: &[],
        keep: Keep::default(),
    });
    rig.pace
}

fn seconds(rig: &mut Rig, count: u64, share: fn(u64) -> (u64, u64)) {
    for _ in 0..count {
        second(rig, share);
    }
}

/// D2: an outage, an expired token, and a vendor that refuses in words that no rule knows.
#[test]
fn answers_that_are_no_success_never_raise_the_rate() {
    let failures: fn(u64) -> (u64, u64) = |calls| (0, calls);
    let not_found: fn(u64) -> (u64, u64) = |_| (0, 0);
    for share in [failures, not_found] {
        let mut rig = Rig::auto();
        let rates: Vec<u64> = (0..60).map(|_| second(&mut rig, share).rate).collect();
        assert!(rates.iter().all(|rate| *rate == START_RATE), "{rates:?}");
    }
}

/// A crawler's 404s slow no other process down.
#[test]
fn other_answers_do_not_lower_the_rate() {
    let mut rig = Rig::with_ceiling();
    rig.run(5);
    let before = rig.pace.rate;
    for _ in 0..30 {
        second(&mut rig, |_| (0, 0));
    }
    assert_eq!(rig.pace.rate, before);
    assert!(!rig.controller.is_failing());
}

#[test]
fn growth_stays_within_what_was_accepted() {
    let mut rig = Rig::auto();
    for _ in 0..60 {
        second(&mut rig, |calls| (calls / 2, 0));
    }
    assert_eq!(rig.pace.rate, START_RATE, "half of the calls succeed: 1.5 times that is less than the rate");
}

#[test]
fn failing_vendor_is_called_less_by_a_quarter_every_ten_seconds() {
    let mut rig = Rig::auto();
    while rig.pace.rate < 100 * ONE_CALL {
        second(&mut rig, |calls| (calls, 0));
    }
    // Most of the calls that lately ended must fail.
    let start = rig.pace.rate;
    while !rig.controller.is_failing() {
        second(&mut rig, |calls| (0, calls));
        assert!(rig.pace.rate <= start);
    }
    for falls in 1..5 {
        let expected = (0..falls).fold(start, |rate, _| rate / 4 * 3);
        assert!(rig.pace.rate.abs_diff(expected) < 1_000, "{falls}: {} of {expected}", rig.pace.rate);
        seconds(&mut rig, 10, |calls| (0, calls));
    }
    seconds(&mut rig, 200, |calls| (0, calls));
    assert_eq!(rig.pace.rate, START_RATE, "not below the start");
    seconds(&mut rig, 4, |calls| (calls, 0));
    assert!(rig.pace.rate >= start, "back with ten successes: {} of {start}", rig.pace.rate);
}

#[test]
fn failing_vendor_is_called_at_a_quarter_of_its_limit_at_least() {
    let mut rig = Rig::with_ceiling();
    let ceiling = rig.controller.ceiling().unwrap();
    seconds(&mut rig, 300, |calls| (0, calls));
    assert_eq!(rig.pace.rate, START_RATE.max(ceiling / 4));
}

#[test]
fn nothing_is_learned_while_the_vendor_fails() {
    let mut rig = Rig::with_ceiling();
    rig.run(60);
    let ceiling = rig.controller.ceiling();
    seconds(&mut rig, 30, |calls| (0, calls));
    for _ in 0..3 {
        rig.refuse(rig.pace.cut, Some(1));
        rig.pass(1);
        rig.accept(1);
    }
    assert_eq!(rig.controller.ceiling(), ceiling);
}

/// G11: a refusal above the measured limit is provoked. One before anything was measured, or below the limit, is not.
#[test]
fn only_a_probe_expects_a_refusal() {
    let mut rig = Rig::auto();
    rig.run(10);
    assert!(!rig.controller.is_probing(), "nothing was measured");
    let mut rig = Rig::with_ceiling();
    assert!(!rig.controller.is_probing(), "below the limit");
    while rig.pace.rate <= rig.controller.ceiling().unwrap() {
        rig.run(1);
    }
    assert!(rig.controller.is_probing());
    rig.refuse(rig.pace.cut, Some(1));
    assert!(rig.controller.is_probing(), "the other refusals of the same probe come in");
}
