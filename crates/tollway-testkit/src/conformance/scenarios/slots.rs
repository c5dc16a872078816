//! Slots: held until `done`, renewed by long calls, freed when they expire.

use tollway_core::{Settled, Span};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_slot_is_held_until_done,
    a_slot_expires_by_itself,
    a_renewed_slot_lives_on,
    an_expired_slot_is_lost,
    a_slot_is_one_whatever_the_cost,
    settle_and_return_free_the_slot,
    one_lost_slot_renews_none,
    renewing_takes_nothing_from_the_limits_beside,
    slots_come_back_one_by_one,
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

fn a_renewed_slot_lives_on(lab: &Lab<'_>) {
    let policy = lab.policy(["1 concurrent"]);
    let permit = lab.take(&policy);
    for minute in 1..5 {
        lab.at(minute * 59);
        assert!(lab.renew(&permit));
        assert_eq!(lab.ask(&policy).denied().retry_at, at(minute * 59 + 60));
    }
    assert!(lab.done(&permit));
}

fn an_expired_slot_is_lost(lab: &Lab<'_>) {
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

fn one_lost_slot_renews_none(lab: &Lab<'_>) {
    let policy = lab.policy(["short: 1 concurrent expires 10s", "long: 1 concurrent expires 60s"]);
    let permit = lab.take(&policy);
    lab.at(20);
    assert!(!lab.renew(&permit));
    assert_eq!(lab.ask(&policy).denied().retry_at, at(60));
}

fn renewing_takes_nothing_from_the_limits_beside(lab: &Lab<'_>) {
    let policy = lab.policy(["99 concurrent", "b: 60 / minute bucket", "s: 60 / minute sliding", "9k / day"]);
    let permit = lab.take(&policy);
    assert_eq!(lab.drain(&policy, 99), 59);
    for second in 1..=30 {
        lab.at(second);
        assert!(lab.renew(&permit));
    }
    assert_eq!(lab.peek(&policy)[1].used, 30);
}

fn slots_come_back_one_by_one(lab: &Lab<'_>) {
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
