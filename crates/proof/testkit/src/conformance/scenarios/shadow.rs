//! Shadow policies only report: they never deny, delay or fail a take.

use tollway_core::{Outcome, Settled};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    shadow_reports_a_denial_and_grants,
    a_shadow_counts_what_it_would_grant,
    a_shadow_is_not_debited_by_a_denied_take,
    a_shadow_never_refuses,
    shadow_does_not_prevent_booking,
    a_shadow_refuses_no_settle,
    shadow_at_a_lowered_rate_does_not_expire_early,
];

fn shadow_reports_a_denial_and_grants(lab: &Lab<'_>) {
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

fn shadow_does_not_prevent_booking(lab: &Lab<'_>) {
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

/// Ten units are used and refill in ten minutes at the lowered rate. A store must not drop the account after the one
/// minute of the old rate.
fn shadow_at_a_lowered_rate_does_not_expire_early(lab: &Lab<'_>) {
    let shadow = lab.policy(["10 / minute bucket"]).with_shadow(true);
    let lowered = vec!["1 / minute bucket burst 10".parse().expect("a limit")];
    let lowered = shadow.with_limits(lowered).expect("the scenario's limits are right");
    (0..10).for_each(|_| assert_eq!(lab.ask(&shadow).granted().decision.would_deny, 0));
    assert_eq!(lab.ask(&lowered).granted().decision.would_deny, 1);
    lab.at(65);
    assert_eq!(lab.used(&lowered), [9]);
}
