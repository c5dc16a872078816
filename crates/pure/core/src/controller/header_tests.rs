//! What headers may and may not do to the pace of `auto`, one rule each.

use super::tests::{Rig, window};
use super::*;

fn quota(limit: u64, remaining: u64, reset: Option<Span>, grant: u64) -> VendorQuota {
    VendorQuota { limit: Some(limit), remaining, reset, age: Span::ZERO, grant }
}

/// Reports a second's calls at the pace, with these headers.
fn second(rig: &mut Rig, quota: impl Fn(u64) -> VendorQuota) -> Pace {
    rig.pass(1);
    let calls = (rig.pace.rate / ONE_CALL).min(rig.pace.cap.map_or(u64::MAX, |cap| cap.grants));
    rig.grants += calls;
    let quota = quota(rig.grants);
    rig.report(calls, None, &[quota])
}

/// D2: the quota of a day or of a minute is no reason to begin with thousands of calls a second.
#[test]
fn pace_never_jumps_whatever_headers_show() {
    let shown: [fn(u64) -> VendorQuota; 3] = [
        |grant| quota(250_000, 250_000 - grant, None, grant),
        |grant| quota(10_000, 10_000 - grant, Some(Span::from_secs(60)), grant),
        |grant| quota(u64::MAX, u64::MAX, Some(Span::from_millis(1)), grant),
    ];
    for shown in shown {
        let mut rig = Rig::auto();
        for _ in 0..20 {
            let before = rig.pace.rate;
            let pace = second(&mut rig, shown);
            assert!(pace.rate <= before / 2 * 3, "{} after {before}", pace.rate);
        }
    }
}

/// The reset of a bucket or of a sliding window is the time until one call fits.
#[test]
fn reset_that_moves_on_is_no_window() {
    let mut rig = Rig::auto();
    // 20 in 10 s, all used: one more call fits in 4 s, and again in 4 s when that has passed.
    for _ in 0..3 {
        rig.pass(4);
        rig.grants += 1;
        rig.report(1, None, &[window(20, 1, 4, rig.grants)]);
    }
    assert_eq!(rig.pace.cap.map(|cap| cap.lasts), None, "{:?}", rig.pace);
}

#[test]
fn reset_in_other_units_is_not_believed() {
    let mut rig = Rig::auto();
    // A window of a minute in milliseconds: it is read as 16 hours, and ends a thousand times sooner.
    for passed in 0..4 {
        rig.pass(1);
        rig.grants += 3;
        rig.report(3, None, &[window(100, 100 - rig.grants, 60_000 - 1_000 * passed, rig.grants)]);
    }
    assert!(rig.pace.rate >= START_RATE, "{:?}", rig.pace);
}

#[test]
fn refusal_with_much_left_in_headers_is_learned_from() {
    let mut rig = Rig::auto();
    for _ in 0..10 {
        second(&mut rig, |grant| window(5_000, 5_000 - grant, 3_000, grant));
    }
    let rate = rig.pace.rate;
    rig.refuse(rig.pace.cut, Some(10));
    rig.pass(10);
    rig.accept(1);
    assert!(rig.controller.ceiling().is_some_and(|ceiling| ceiling < rate), "{:?}", rig.pace);
}

#[test]
fn exhausted_window_is_learned_from_too() {
    let mut rig = Rig::auto();
    for _ in 0..5 {
        second(&mut rig, |grant| window(20, 20_u64.saturating_sub(grant), 30, grant));
    }
    rig.refuse(rig.pace.cut, Some(10));
    rig.pass(10);
    rig.accept(1);
    assert!(rig.controller.ceiling().is_some(), "{:?}", rig.pace);
}

#[test]
fn raised_limit_in_headers_is_followed_at_once() {
    let mut rig = Rig::with_ceiling();
    let ceiling = rig.controller.ceiling().unwrap();
    let per_second = |limit| move |grant| window(limit, 1, 1, grant);
    second(&mut rig, per_second(10));
    for _ in 0..20 {
        second(&mut rig, per_second(30));
    }
    let pace = rig.pace.rate;
    assert!(pace >= 2 * ceiling && pace <= 3 * ceiling, "{pace} after {ceiling}");
    second(&mut rig, per_second(10));
    assert!(rig.pace.rate <= ceiling * 11 / 10, "lower at once: {:?}", rig.pace);
}

#[test]
fn kept_part_of_a_window_is_not_used() {
    let mut rig = Rig::auto();
    rig.keep = Keep::percent(50).unwrap();
    for passed in 0..55 {
        second(&mut rig, |grant| window(400, 400 - grant, 60 - passed, grant));
    }
    assert!((150..=200).contains(&rig.grants), "{} calls", rig.grants);
    assert_eq!(rig.pace.cap.map(|cap| cap.grants), Some(200 - rig.grants));
    let left = rig.controller.quotas_left(rig.now, rig.grants);
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].limit, left[0].remaining), (Some(400), 400 - rig.grants), "the vendor's own figures");
}

/// A quota of a day bounds nothing, and is shown all the same.
#[test]
fn what_is_left_is_shown_although_it_bounds_nothing() {
    let mut rig = Rig::auto();
    for _ in 0..10 {
        second(&mut rig, |grant| quota(250_000, 250_000 - grant, None, grant));
    }
    let left = rig.controller.quotas_left(rig.now, rig.grants);
    let expected = QuotaLeft { limit: Some(250_000), remaining: 250_000 - rig.grants, resets_at: None };
    assert_eq!(left, [expected]);
}

#[test]
fn window_that_is_over_shows_nothing() {
    let mut rig = Rig::auto();
    second(&mut rig, |grant| window(40, 40 - grant, 10, grant));
    rig.pass(11);
    assert_eq!(rig.controller.quotas_left(rig.now, rig.grants), []);
}
