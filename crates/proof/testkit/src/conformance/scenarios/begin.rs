//! `begin`: no cost while the permit is good, early before its time, a second take when it is too late.

use tollway_core::{Begun, Booking};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    good_permit_begins_at_no_cost,
    an_early_permit_waits,
    a_late_permit_takes_again,
    a_late_permit_takes_again_once,
    late_permit_goes_to_the_back_of_the_queue,
    a_permit_without_a_window_is_always_good,
];

fn good_permit_begins_at_no_cost(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    let permit = lab.take(&policy);
    lab.at(59);
    assert_eq!(lab.begin(&permit, secs(0)), Begun::Now);
    assert_eq!(lab.used(&policy), [1]);
}

fn an_early_permit_waits(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    lab.take(&policy);
    let permit = lab.ask(&policy).wait(secs(60)).granted();
    lab.at(20);
    assert_eq!(lab.begin(&permit, secs(0)), Begun::Early(secs(40)));
    lab.at(60);
    assert_eq!(lab.begin(&permit, secs(0)), Begun::Now);
}

fn a_late_permit_takes_again(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    let permit = lab.take(&policy);
    lab.at(60);
    let Some(grant) = granted_again(&lab.begin(&permit, secs(0))) else { panic!("not taken again") };
    assert_eq!((grant.at, grant.good_until), (at(60), at(120)));
    assert_eq!(lab.used(&policy), [1]);
}

fn a_late_permit_takes_again_once(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    let permit = lab.take(&policy);
    lab.at(60);
    for _ in 0..9 {
        assert!(granted_again(&lab.begin(&permit, secs(0))).is_some());
    }
    assert_eq!(lab.used(&policy), [1]);
}

fn late_permit_goes_to_the_back_of_the_queue(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    let late = lab.take(&policy);
    lab.at(60);
    assert_eq!(lab.book_times(&policy, 2), [at(60), at(120)]);
    assert!(matches!(lab.begin(&late, secs(0)), Begun::Again(decision) if !decision.is_granted()));
    let Some(grant) = granted_again(&lab.begin(&late, secs(600))) else { panic!("not taken again") };
    assert_eq!(grant.at, at(180));
}

fn a_permit_without_a_window_is_always_good(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute bucket"]);
    let permit = lab.take(&policy);
    lab.at(86_400);
    assert_eq!(lab.begin(&permit, secs(0)), Begun::Now);
}

/// The booking of the second take, if there was one.
fn granted_again(begun: &Begun) -> Option<Booking> {
    match begun {
        Begun::Again(decision) => decision.booking().copied(),
        Begun::Now | Begun::Early(_) => None,
    }
}
