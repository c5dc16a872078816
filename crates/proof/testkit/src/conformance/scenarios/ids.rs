//! Callers' ids: a repeated take counts once.

use tollway_core::{Refusal, Span};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_repeated_id_counts_once,
    an_id_with_another_cost_is_refused,
    a_denial_is_not_remembered,
    an_id_is_forgotten_after_ten_minutes,
    ids_are_remembered_up_to_a_bound,
    id_counts_once_in_any_order_of_charges,
    ids_belong_to_one_account,
    an_id_survives_a_reset,
    repeated_id_gets_the_same_booking,
];

fn a_repeated_id_counts_once(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    let first = lab.ask(&policy).id("x").granted();
    lab.at(5);
    for _ in 0..9 {
        let again = lab.ask(&policy).id("x").granted();
        assert!(again.decision.repeated);
        assert_eq!(again.booking, first.booking);
    }
    assert_eq!(lab.used(&policy), [1]);
}

fn an_id_with_another_cost_is_refused(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]);
    lab.ask(&policy).id("x").granted();
    let refusal = lab.ask(&policy).id("x").cost("requests", 2).refused();
    assert_eq!(refusal, Refusal::IdReused("x".to_owned()));
    assert_eq!(lab.used(&policy), [1]);
}

fn a_denial_is_not_remembered(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    lab.take(&policy);
    lab.ask(&policy).id("x").denied();
    lab.at(60);
    assert!(!lab.ask(&policy).id("x").granted().decision.repeated);
}

fn an_id_is_forgotten_after_ten_minutes(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / second"]);
    lab.ask(&policy).id("x").granted();
    lab.set(at(600).minus(Span::from_micros(1)));
    assert!(lab.ask(&policy).id("x").granted().decision.repeated);
    lab.at(600);
    assert!(!lab.ask(&policy).id("x").granted().decision.repeated);
}

fn ids_are_remembered_up_to_a_bound(lab: &Lab<'_>) {
    let policy = lab.policy(["5k / minute"]);
    for number in 0..1_024 {
        lab.ask(&policy).id(&format!("id-{number}")).granted();
    }
    assert_eq!(lab.ask(&policy).id("one more").refused(), Refusal::TooManyIds);
    assert!(lab.ask(&policy).id("id-7").granted().decision.repeated);
    lab.take(&policy);
    assert_eq!(lab.used(&policy), [1_025]);
    lab.at(600);
    lab.ask(&policy).id("one more").granted();
}

fn id_counts_once_in_any_order_of_charges(lab: &Lab<'_>) {
    let (one, other) = (lab.policy(["9 / minute"]), lab.policy(["9 / minute"]));
    lab.ask(&one).and(&other).id("x").granted();
    assert!(lab.ask(&other).and(&one).id("x").granted().decision.repeated);
    assert_eq!((lab.used(&one), lab.used(&other)), (vec![1], vec![1]));
}

fn ids_belong_to_one_account(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]);
    lab.ask(&policy).subject("a").id("x").granted();
    assert!(!lab.ask(&policy).subject("b").id("x").granted().decision.repeated);
}

fn an_id_survives_a_reset(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]);
    lab.ask(&policy).id("x").granted();
    lab.reset(&policy);
    assert!(lab.ask(&policy).id("x").granted().decision.repeated);
    assert_eq!(lab.used(&policy), [0]);
}

fn repeated_id_gets_the_same_booking(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    lab.take(&policy);
    let ask = lab.ask(&policy).id("x").wait(secs(600));
    let first = ask.clone().granted();
    let again = ask.granted();
    assert_eq!((first.booking.at, again.booking.at), (at(60), at(60)));
    assert_eq!(lab.ask(&policy).wait(secs(600)).granted().booking.at, at(120));
}
