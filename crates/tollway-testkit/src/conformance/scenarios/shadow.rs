//! Shadows watch: they never wait, deny, delay or fail a take.

use tollway_core::{Outcome, Settled};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_shadow_that_would_deny_only_says_so,
    a_shadow_counts_what_it_would_grant,
    a_shadow_is_not_debited_by_a_denied_take,
    a_shadow_never_refuses,
    a_shadow_does_not_keep_a_take_from_waiting,
    a_shadow_refuses_no_settle,
    a_shadow_at_a_lowered_rate_is_not_forgotten_early,
];

fn a_shadow_that_would_deny_only_says_so(lab: &Lab<'_>) {
    let (enforced, shadow) = (lab.policy(["9 / minute"]), lab.policy(["2 / minute"]).with_shadow(true));
    let would_deny = |_| lab.ask(&enforced).and(&shadow).granted().decision.would_deny;
    assert_eq!((0..4).map(would_deny).collect::<Vec<_>>(), [0, 0, 2, 2]);
    assert_eq!((lab.used(&enforced), lab.used(&shadow)), (vec![4], vec![2]));
}

fn a_shadow_counts_what_it_would_grant(lab: &Lab<'_>) {
    let shadow = lab.policy(["2 / minute"]).with_shadow(true);
    for _ in 0..5 {
        lab.take(&shadow);
    }
    assert_eq!(lab.used(&shadow), [2]);
}

fn a_shadow_is_not_debited_by_a_denied_take(lab: &Lab<'_>) {
    let (enforced, shadow) = (lab.policy(["1 / minute"]), lab.policy(["9 / minute"]).with_shadow(true));
    lab.ask(&shadow).and(&enforced).granted();
    lab.ask(&shadow).and(&enforced).denied();
    assert_eq!(lab.used(&shadow), [1]);
}

fn a_shadow_never_refuses(lab: &Lab<'_>) {
    let (enforced, shadow) = (lab.policy(["9 / minute"]), lab.policy(["2 / minute"]).with_shadow(true));
    let permit = lab.ask(&enforced).and(&shadow).cost("requests", 50).granted();
    assert_eq!(permit.decision.would_deny, 2);
    assert_eq!(lab.used(&shadow), [0]);
}

fn a_shadow_does_not_keep_a_take_from_waiting(lab: &Lab<'_>) {
    let (enforced, shadow) = (lab.policy(["1 / minute"]), lab.policy(["1 concurrent"]).with_shadow(true));
    lab.take(&enforced);
    let permit = lab.ask(&enforced).and(&shadow).wait(secs(60)).granted();
    assert_eq!((permit.booking.at, permit.booking.good_until), (at(60), at(120)));
}

fn a_shadow_refuses_no_settle(lab: &Lab<'_>) {
    let shadow = lab.policy(["9 tokens / minute bucket"]).with_shadow(true);
    let permit = lab.ask(&shadow).cost("tokens", 5).granted();
    assert_eq!(lab.try_settle(&permit, [("tokens", 500)], false), Outcome::Settled(Settled::Whole));
    lab.ask(&shadow).cost("tokens", 5).granted();
}

/// Ten are used, and refill in ten minutes since the rate was lowered, which the shadow was asked to know: a store that forgets
/// what is as good as new must not think of the minute it took before.
fn a_shadow_at_a_lowered_rate_is_not_forgotten_early(lab: &Lab<'_>) {
    let shadow = lab.policy(["10 / minute bucket"]).with_shadow(true);
    let lowered = vec!["1 / minute bucket burst 10".parse().expect("a limit")];
    let lowered = shadow.with_limits(lowered).expect("the scenario's limits are right");
    (0..10).for_each(|_| assert_eq!(lab.ask(&shadow).granted().decision.would_deny, 0));
    assert_eq!(lab.ask(&lowered).granted().decision.would_deny, 1);
    lab.at(65);
    assert_eq!(lab.used(&lowered), [9]);
}
