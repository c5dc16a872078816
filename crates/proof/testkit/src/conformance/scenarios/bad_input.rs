//! Invalid input is refused and changes nothing.

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{CostError, Refusal, Span, Timestamp};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_cost_above_a_limit_is_refused_at_once,
    costs_that_would_wrap_are_refused,
    cost_beyond_the_bound_is_rejected,
    same_charge_twice_is_refused,
    too_many_charges_are_refused,
    clock_going_back_uses_the_newest_reading,
    clock_going_back_refills_nothing,
    the_largest_limits_do_not_overflow,
    clock_near_the_maximum_still_answers,
];

fn a_cost_above_a_limit_is_refused_at_once(lab: &Lab<'_>) {
    for limit in ["5 / minute", "5 / minute bucket", "9 / minute bucket burst 5", "5 / minute sliding"] {
        let policy = lab.policy([limit]);
        lab.take(&policy);
        let refusal = lab.ask(&policy).cost("requests", 6).wait(secs(600)).refused();
        assert!(matches!(refusal, Refusal::AboveLimit { cost: 6, capacity: 5, .. }), "{limit}: {refusal}");
        assert_eq!(lab.used(&policy), [1], "{limit}");
    }
    let paced = lab.policy(["5 / minute paced"]);
    assert!(matches!(lab.ask(&paced).cost("requests", 2).refused(), Refusal::AboveLimit { capacity: 1, .. }));
}

fn costs_that_would_wrap_are_refused(lab: &Lab<'_>) {
    for limit in ["10 / minute", "10 / minute bucket", "10 / minute sliding"] {
        let policy = lab.policy([limit]);
        for bits in [8, 16, 31, 32, 48] {
            lab.ask(&policy).cost("requests", (1 << bits) + 1).refused();
            lab.ask(&policy).cost("requests", (1 << bits) * 3).refused();
        }
        assert_eq!(lab.used(&policy), [0], "{limit}");
    }
}

fn cost_beyond_the_bound_is_rejected(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / minute"]);
    for amount in [u64::MAX, 1 << 63, AMOUNT_MAX + 1] {
        assert!(matches!(policy.cost([("requests", amount)]), Err(CostError::TooLarge { .. })));
    }
    lab.ask(&policy).cost("requests", AMOUNT_MAX).refused();
    assert_eq!(lab.used(&policy), [0]);
}

fn same_charge_twice_is_refused(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / minute"]);
    let refusal = lab.ask(&policy).subject("a").and(&policy).subject("a").refused();
    assert!(matches!(refusal, Refusal::SameChargeTwice { .. }));
    assert_eq!(lab.used(&policy), [0]);
}

fn too_many_charges_are_refused(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / minute"]);
    let many = |count: usize| {
        (1..count).fold(lab.ask(&policy), |ask, number| ask.and(&policy).subject(&number.to_string()))
    };
    assert_eq!(many(17).refused(), Refusal::ChargeCount(17));
    assert_eq!(lab.used(&policy), [0]);
    many(16).granted();
}

fn clock_going_back_uses_the_newest_reading(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    lab.at(100);
    lab.take(&policy);
    lab.at(40);
    let permit = lab.take(&policy);
    assert_eq!((permit.decision.now, permit.booking.at), (at(100), at(100)));
    assert_eq!(lab.ask(&policy).denied().retry_at, at(120));
}

fn clock_going_back_refills_nothing(lab: &Lab<'_>) {
    let policy = lab.policy(["60 / minute bucket burst 5"]);
    lab.at(100);
    assert_eq!(lab.drain(&policy, 99), 5);
    for back in [99, 50, 0, 99] {
        lab.at(back);
        lab.ask(&policy).denied();
    }
    lab.at(102);
    assert_eq!(lab.drain(&policy, 99), 2);
}

fn the_largest_limits_do_not_overflow(lab: &Lab<'_>) {
    let text = format!("{AMOUNT_MAX} / 366 days bucket");
    let policy = lab.policy([&text, "1 concurrent"]);
    let permit = lab.ask(&policy).cost("requests", AMOUNT_MAX).granted();
    lab.settle(&permit, [("requests", AMOUNT_MAX)]);
    assert_eq!(lab.ask(&policy).cost("requests", AMOUNT_MAX).denied().retry_at, at(366 * 86_400));
    let window = format!("{AMOUNT_MAX} / minute");
    let window = lab.policy([&window]);
    let permit = lab.ask(&window).cost("requests", AMOUNT_MAX).granted();
    lab.settle(&permit, [("requests", AMOUNT_MAX)]);
    lab.ask(&window).denied();
}

fn clock_near_the_maximum_still_answers(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute", "b: 2 / minute bucket", "s: 2 / minute sliding", "2 concurrent"]);
    // A day before the maximum, so that no expiry exceeds it.
    lab.set(Timestamp::MAX.minus(Span::from_days(1)));
    assert_eq!(lab.drain(&policy, 9), 2);
    lab.set(Timestamp::MAX);
    lab.peek(&policy);
}
