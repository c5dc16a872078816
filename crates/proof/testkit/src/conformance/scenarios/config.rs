//! Usage is kept when a policy changes.

use tollway_core::Policy;

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_raised_amount_leaves_what_is_used,
    a_lowered_amount_leaves_what_is_used,
    a_changed_burst_leaves_what_is_used,
    a_changed_rate_drains_what_is_used,
    an_added_limit_starts_empty_and_the_others_stay,
    restored_limit_keeps_its_usage,
    forgetting_policy_resets_a_restored_limit,
    the_order_of_limits_does_not_matter,
    two_configs_side_by_side_share_their_meters,
    denial_under_another_config_keeps_the_queue,
    account_at_a_lowered_rate_does_not_expire_early,
];

fn changed<const N: usize>(policy: &Policy, limits: [&str; N]) -> Policy {
    let limits = limits.iter().map(|text| text.parse().expect("the scenario's limits are right")).collect();
    policy.with_limits(limits).expect("the scenario's limits go together")
}

fn a_raised_amount_leaves_what_is_used(lab: &Lab<'_>) {
    let policy = lab.policy(["3 / minute"]);
    assert_eq!(lab.drain(&policy, 9), 3);
    assert_eq!(lab.drain(&changed(&policy, ["5 / minute"]), 9), 2);
}

fn a_lowered_amount_leaves_what_is_used(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    assert_eq!(lab.drain(&policy, 4), 4);
    let lowered = changed(&policy, ["2 / minute"]);
    lab.ask(&lowered).denied();
    let reading = lab.peek(&lowered)[0];
    assert_eq!((reading.used, reading.remaining), (4, 0));
    lab.at(60);
    assert_eq!(lab.drain(&lowered, 9), 2);
}

fn a_changed_burst_leaves_what_is_used(lab: &Lab<'_>) {
    let policy = lab.policy(["60 / minute bucket burst 10"]);
    assert_eq!(lab.drain(&policy, 99), 10);
    assert_eq!(lab.drain(&changed(&policy, ["60 / minute bucket burst 15"]), 99), 5);
    let lowered = changed(&policy, ["60 / minute bucket burst 4"]);
    assert_eq!(lab.ask(&lowered).denied().retry_at, at(12));
}

fn a_changed_rate_drains_what_is_used(lab: &Lab<'_>) {
    let policy = lab.policy(["60 / minute bucket"]);
    assert_eq!(lab.drain(&policy, 99), 60);
    let faster = changed(&policy, ["120 / minute bucket"]);
    assert_eq!(lab.drain(&faster, 99), 60);
    lab.at(1);
    assert_eq!(lab.drain(&faster, 99), 2);
}

fn an_added_limit_starts_empty_and_the_others_stay(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]);
    assert_eq!(lab.drain(&policy, 4), 4);
    let more = changed(&policy, ["50 / hour bucket", "9 / minute"]);
    assert_eq!(lab.used(&more), [0, 4]);
    assert_eq!(lab.drain(&more, 99), 5);
    assert_eq!(lab.used(&more), [5, 9]);
}

fn restored_limit_keeps_its_usage(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute", "3 / hour"]);
    assert_eq!(lab.drain(&policy, 9), 3);
    let fewer = changed(&policy, ["9 / minute"]);
    assert_eq!(lab.drain(&fewer, 2), 2);
    assert_eq!(lab.used(&policy), [5, 3]);
    lab.ask(&policy).denied();
}

/// C3: a period that becomes unlimited loses its counter; the others keep theirs.
fn forgetting_policy_resets_a_restored_limit(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute from first call", "3 / hour from first call"]).with_forgetting(true);
    assert_eq!(lab.drain(&policy, 9), 3);
    let fewer = changed(&policy, ["9 / minute from first call"]);
    lab.take(&fewer);
    assert_eq!(lab.used(&policy), [4, 0]);
    lab.take(&policy);
    assert_eq!(lab.used(&policy), [5, 1]);
}

fn the_order_of_limits_does_not_matter(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute", "8 / hour", "7 / day"]);
    lab.take(&policy);
    let turned = changed(&policy, ["7 / day", "9 / minute", "8 / hour"]);
    lab.take(&turned);
    assert_eq!(lab.used(&policy), [2, 2, 2]);
}

fn two_configs_side_by_side_share_their_meters(lab: &Lab<'_>) {
    let old = lab.policy(["10 / minute", "100 / hour bucket"]);
    let new = changed(&old, ["20 / minute", "5 concurrent"]);
    for _ in 0..4 {
        lab.take(&old);
        lab.take(&new);
    }
    assert_eq!(lab.used(&old), [8, 4]);
    assert_eq!(lab.used(&new), [8, 4]);
}

fn denial_under_another_config_keeps_the_queue(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    let other = changed(&policy, ["9 / second", "1 / minute"]);
    lab.take(&policy);
    let place = lab.ask(&policy).wait(secs(60)).granted();
    lab.ask(&other).denied();
    lab.peek(&other);
    lab.give_back(&place);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(60));
}

/// I6: an account that has expired at the old rate still counts at the lowered one. Not compared with the model, which
/// assumes one rate.
fn account_at_a_lowered_rate_does_not_expire_early(lab: &Lab<'_>) {
    let policy = lab.policy(["100 / minute bucket"]);
    let lowered = vec!["1 / minute bucket burst 100".parse().expect("a limit")];
    let lowered = policy.with_limits(lowered).expect("the scenario's limits are right");
    assert_eq!(lab.batch(&policy, 100), vec![true; 100]);
    assert_eq!(lab.batch(&lowered, 1), [false]);
    lab.at(65);
    assert_eq!(lab.batch(&lowered, 3), [true, false, false]);
}
