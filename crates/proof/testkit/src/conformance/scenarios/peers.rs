//! Known faults of other limiters, measured or found in their sources.

use tollway_core::{Refusal, Settled, Span};

use crate::conformance::lab::{Lab, at};

super::list![
    m1_a_huge_cost_does_not_wrap,
    m3_odd_rates_are_exact,
    m5_a_refund_never_gives_more_than_the_limit,
    m6_a_denied_take_drains_no_other_limit,
    m11_a_clock_that_goes_back_neither_crashes_nor_refills,
    throttlecrab_burst_one,
    throttlecrab_burst_after_idle,
];

/// M1: governor admits `check_n(5_124_097)` at one an hour with burst 2, because a multiply wraps.
fn m1_a_huge_cost_does_not_wrap(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / hour bucket burst 2"]);
    for cost in [3, 5_124_096, 5_124_097, 5_124_098, 1 << 44] {
        assert!(matches!(lab.ask(&policy).cost("requests", cost).refused(), Refusal::AboveLimit { .. }));
    }
    assert_eq!(lab.drain(&policy, 9), 2);
}

/// M3: a step rounded down over-admits 0.1 % at 1.5 M/s, 1 % at 30,000,001/s, 43 % at 700 M/s.
fn m3_odd_rates_are_exact(lab: &Lab<'_>) {
    for rate in [1_500_000, 30_000_001, 700_000_000, 999_999_937] {
        let text = format!("{rate} / second bucket");
        let policy = lab.policy([text.as_str()]);
        lab.at(0);
        lab.ask(&policy).cost("requests", rate).granted();
        let mut granted = 0;
        for step in 1..=100u64 {
            lab.set(at(0).plus(Span::from_micros(step * 10_000)));
            let free = lab.peek(&policy)[0].remaining;
            lab.ask(&policy).cost("requests", free).granted();
            granted += free;
        }
        assert_eq!(granted, rate, "refilled in a second at {rate} a second");
    }
}

/// M5: gubernator's remaining rises to 3 and 4 of 2 when hits of -1 are sent.
fn m5_a_refund_never_gives_more_than_the_limit(lab: &Lab<'_>) {
    for limit in ["2 / minute", "2 / minute bucket", "2 / minute sliding", "2 / minute from first call"] {
        let policy = lab.policy([limit]);
        lab.at(1);
        let permit = lab.take(&policy);
        for _ in 0..5 {
            assert_eq!(lab.give_back(&permit), Settled::Whole);
            assert_eq!(lab.peek(&policy)[0].remaining, 2, "{limit}");
        }
        assert_eq!(lab.drain(&policy, 9), 2, "{limit}");
    }
}

/// M6: linkerd charges the total before the identity, so a refused client still drains everyone's total.
fn m6_a_denied_take_drains_no_other_limit(lab: &Lab<'_>) {
    let (total, each) = (lab.policy(["10 / minute bucket"]), lab.policy(["1 / minute"]));
    let take = |who: &str| lab.ask(&total).and(&each).subject(who);
    take("greedy").granted();
    for _ in 0..100 {
        take("greedy").denied();
    }
    for who in 0..9 {
        take(&who.to_string()).granted();
    }
}

/// M11: a clock read before the shared timestamp was loaded made others crash or refill.
fn m11_a_clock_that_goes_back_neither_crashes_nor_refills(lab: &Lab<'_>) {
    let limits =
        ["a: 5 / minute bucket", "b: 5 / minute sliding", "c: 5 / minute", "d: 5 / minute from first call"];
    let policy = lab.policy(limits);
    lab.at(7_200);
    assert_eq!(lab.drain(&policy, 9), 5);
    for back in [7_199, 3_600, 1, 0] {
        lab.at(back);
        lab.ask(&policy).denied();
        assert_eq!(lab.used(&policy), [5, 5, 5, 5]);
    }
}

/// throttlecrab admits everything at burst 1.
fn throttlecrab_burst_one(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute bucket burst 1"]);
    let granted = (0..200).map(|_| lab.drain(&policy, 1)).sum::<u64>();
    assert_eq!(granted, 1);
}

/// throttlecrab gives 17 of 10 after a pause.
fn throttlecrab_burst_after_idle(lab: &Lab<'_>) {
    for amount in [10, 100] {
        let text = format!("{amount} / second bucket burst {amount}");
        let policy = lab.policy([text.as_str()]);
        lab.at(0);
        assert_eq!(lab.drain(&policy, 999), amount);
        lab.set(at(0).plus(Span::from_millis(1_750)));
        assert_eq!(lab.drain(&policy, 999), amount);
    }
}
