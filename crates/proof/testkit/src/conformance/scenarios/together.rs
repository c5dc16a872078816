//! All or nothing, and denials are free: over limits, units, policies and subjects.

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_take_counts_in_all_limits_or_none,
    a_denial_by_one_policy_leaves_the_other,
    take_over_two_subjects_is_all_or_nothing,
    a_denial_changes_nothing_however_often,
    several_policies_never_book_ahead,
    retry_at_is_the_latest_of_all_limits,
    the_limit_that_denied_is_named,
];

fn a_take_counts_in_all_limits_or_none(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / second", "5 / minute", "100 tokens / minute bucket"]);
    lab.ask(&policy).cost("tokens", 90).granted();
    assert_eq!(lab.used(&policy), [1, 1, 90]);
    lab.ask(&policy).cost("tokens", 20).denied();
    assert_eq!(lab.used(&policy), [1, 1, 90]);
}

fn a_denial_by_one_policy_leaves_the_other(lab: &Lab<'_>) {
    let (wide, narrow) = (lab.policy(["100 / minute"]), lab.policy(["1 / minute"]));
    lab.ask(&wide).and(&narrow).granted();
    for _ in 0..5 {
        assert_eq!(lab.ask(&wide).and(&narrow).denied().charge, 1);
        assert_eq!(lab.ask(&narrow).and(&wide).denied().charge, 0);
    }
    assert_eq!((lab.used(&wide), lab.used(&narrow)), (vec![1], vec![1]));
}

fn take_over_two_subjects_is_all_or_nothing(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    let both = || lab.ask(&policy).subject("a").and(&policy).subject("b");
    lab.ask(&policy).subject("b").granted();
    both().granted();
    assert_eq!(both().denied().charge, 1);
    lab.ask(&policy).subject("a").granted();
    lab.ask(&policy).subject("a").denied();
}

fn a_denial_changes_nothing_however_often(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / hour bucket burst 2", "10 / minute sliding", "3 concurrent"]);
    lab.drain(&policy, 2);
    let before = lab.peek(&policy);
    for _ in 0..50 {
        lab.ask(&policy).denied();
    }
    assert_eq!(lab.peek(&policy), before);
}

fn several_policies_never_book_ahead(lab: &Lab<'_>) {
    let (one, other) = (lab.policy(["1 / minute"]), lab.policy(["1 / second bucket"]));
    lab.take(&one);
    let denial = lab.ask(&one).and(&other).wait(secs(600)).denied();
    assert_eq!(denial.retry_at, at(60));
    assert_eq!(lab.used(&other), [0]);
}

fn retry_at_is_the_latest_of_all_limits(lab: &Lab<'_>) {
    let (minute, hour) = (lab.policy(["1 / minute"]), lab.policy(["1 / hour"]));
    lab.ask(&minute).and(&hour).granted();
    let denial = lab.ask(&minute).and(&hour).denied();
    assert_eq!((denial.charge, denial.retry_at), (1, at(3_600)));
}

fn the_limit_that_denied_is_named(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / second", "2 / minute", "9 / hour"]);
    lab.drain(&policy, 2);
    let denial = lab.ask(&policy).denied();
    assert_eq!((denial.charge, denial.limit), (0, 1));
    assert_eq!(denial.decision.charges[0].readings[1].remaining, 0);
}
