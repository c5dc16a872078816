//! Slots: held until `done`, renewed by long calls, freed when they expire.

use tollway_core::{Settled, Span};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_slot_is_held_until_done,
    a_slot_expires_by_itself,
    renewed_slot_is_kept,
    expired_slot_cannot_be_renewed,
    a_slot_is_one_whatever_the_cost,
    settle_and_return_free_the_slot,
    renew_fails_if_one_slot_has_expired,
    renew_does_not_charge_other_limits,
    slots_expire_one_by_one,
];

fn a_slot_is_held_until_done(lab: &Lab<'_>) {
    let policy = lab.policy(["2 concurrent"]);
    let (first, _second) = (lab.take(&policy), lab.take(&policy));
    lab.ask(&policy).denied();
    assert!(lab.done(&first));
    assert!(!lab.done(&first));
    assert_eq!(lab.drain(&policy, 9), 1);
}

fn a_slot_expires_by_itself(lab: &Lab<'_>) {
    let policy = lab.policy(["1 concurrent expires 30s"]);
    let permit = lab.take(&policy);
    assert_eq!(permit.booking.good_until, at(30));
    assert_eq!(lab.ask(&policy).denied().retry_at, at(30));
    lab.set(at(30).minus(Span::from_micros(1)));
    lab.ask(&policy).denied();
    lab.at(30);
    lab.take(&policy);
    assert!(!lab.done(&permit));
    assert_eq!(lab.used(&policy), [1]);
}

fn renewed_slot_is_kept(lab: &Lab<'_>) {
    let policy = lab.policy(["1 concurrent"]);
    let permit = lab.take(&policy);
    for minute in 1..5 {
        lab.at(minute * 59);
        assert!(lab.renew(&permit));
        assert_eq!(lab.ask(&policy).denied().retry_at, at(minute * 59 + 60));
    }
    assert!(lab.done(&permit));
}

fn expired_slot_cannot_be_renewed(lab: &Lab<'_>) {
    let policy = lab.policy(["1 concurrent"]);
    let permit = lab.take(&policy);
    lab.at(60);
    assert!(!lab.renew(&permit));
    lab.take(&policy);
    assert!(!lab.renew(&permit));
}

fn a_slot_is_one_whatever_the_cost(lab: &Lab<'_>) {
    let policy = lab.policy(["3 concurrent", "1k tokens / minute"]);
    lab.ask(&policy).cost("tokens", 900).granted();
    lab.ask(&policy).cost("tokens", 0).granted();
    assert_eq!(lab.used(&policy), [2, 900]);
}

fn settle_and_return_free_the_slot(lab: &Lab<'_>) {
    let policy = lab.policy(["2 concurrent", "1k tokens / minute"]);
    let settled = lab.ask(&policy).cost("tokens", 100).granted();
    let returned = lab.ask(&policy).cost("tokens", 100).granted();
    assert_eq!(lab.settle(&settled, [("tokens", 70)]), Settled::Whole);
    assert_eq!(lab.give_back(&returned), Settled::Whole);
    assert_eq!(lab.used(&policy), [0, 70]);
}

fn renew_fails_if_one_slot_has_expired(lab: &Lab<'_>) {
    let policy = lab.policy(["short: 1 concurrent expires 10s", "long: 1 concurrent expires 60s"]);
    let permit = lab.take(&policy);
    lab.at(20);
    assert!(!lab.renew(&permit));
    assert_eq!(lab.ask(&policy).denied().retry_at, at(60));
}

fn renew_does_not_charge_other_limits(lab: &Lab<'_>) {
    let policy = lab.policy(["99 concurrent", "b: 60 / minute bucket", "s: 60 / minute sliding", "9k / day"]);
    let permit = lab.take(&policy);
    assert_eq!(lab.drain(&policy, 99), 59);
    for second in 1..=30 {
        lab.at(second);
        assert!(lab.renew(&permit));
    }
    assert_eq!(lab.peek(&policy)[1].used, 30);
}

fn slots_expire_one_by_one(lab: &Lab<'_>) {
    let policy = lab.policy(["3 concurrent"]);
    for second in 0..3 {
        lab.at(second);
        lab.take(&policy);
    }
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(58));
    lab.at(60);
    assert_eq!(lab.drain(&policy, 9), 1);
    lab.at(62);
    assert_eq!(lab.drain(&policy, 9), 2);
}
