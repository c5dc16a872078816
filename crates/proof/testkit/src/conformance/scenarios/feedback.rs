//! What a vendor says: holds, what is left of limits, and rates that are learned.

use tollway_core::{Begun, Feedback, LearnedRate, LimitLeft, Policy, RateChange, Refusal, Span};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_hold_denies_until_its_end,
    of_two_holds_the_later_end_stays,
    a_hold_delays_bookings_and_permits,
    a_hold_changes_no_meter,
    a_reset_ends_a_hold,
    what_is_left_is_lowered_by_grants_and_ends,
    of_one_end_the_smaller_number_stays,
    a_later_end_replaces_what_is_left,
    an_adaptive_limit_starts_at_its_rate,
    a_new_rate_counts_from_its_time_on,
    a_rate_of_an_old_version_is_not_written,
    a_cut_makes_earlier_permits_take_again,
    grants_are_counted_and_returned_ones_are_not,
    a_learned_rate_outlives_its_bucket,
    a_burst_is_saved_up,
    a_controller_that_is_too_long_is_refused,
    calls_left_bound_an_adaptive_limit,
];

fn hold(length: Span) -> Feedback {
    Feedback { hold: length, ..Feedback::default() }
}

fn left(units: u64, lasts: Span) -> Feedback {
    Feedback { left: [LimitLeft { limit: 0, units, lasts }].into_iter().collect(), ..Feedback::default() }
}

/// Calls a second in millionths, from a version.
fn rate(version: u64, rate: u64) -> RateChange {
    RateChange { version, rate, burst: 1, cut: false, left: None, controller: String::new() }
}

fn change(change: RateChange) -> Feedback {
    Feedback { rate: Some(change), ..Feedback::default() }
}

fn learned(lab: &Lab<'_>, policy: &Policy) -> LearnedRate {
    lab.feedback(policy, Feedback::default()).rate.expect("the policy has an adaptive limit")
}

fn a_hold_denies_until_its_end(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    let learned = lab.feedback(&policy, hold(secs(10)));
    assert_eq!((learned.held_until, learned.rate), (Some(at(10)), None));
    let denied = lab.ask(&policy).denied();
    assert_eq!((denied.retry_after(), denied.held), (secs(10), true));
    assert_eq!(denied.decision.charges[0].held_until, Some(at(10)));
    lab.at(10);
    assert_eq!(lab.ask(&policy).granted().decision.charges[0].held_until, None);
}

fn of_two_holds_the_later_end_stays(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    lab.feedback(&policy, hold(secs(10)));
    assert_eq!(lab.feedback(&policy, hold(secs(3))).held_until, Some(at(10)));
    lab.at(4);
    assert_eq!(lab.feedback(&policy, hold(secs(9))).held_until, Some(at(13)));
    // A vendor may send nonsense: a day and an hour at most.
    assert_eq!(lab.feedback(&policy, hold(secs(1 << 40))).held_until, Some(at(4 + 25 * 3_600)));
}

fn a_hold_delays_bookings_and_permits(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    let before = lab.take(&policy);
    lab.feedback(&policy, hold(secs(10)));
    let booked = lab.ask(&policy).wait(secs(60)).granted();
    assert_eq!(booked.booking.at, at(10));
    assert_eq!(lab.begin(&before, secs(0)), Begun::Early(secs(10)));
    lab.at(10);
    assert_eq!((lab.begin(&before, secs(0)), lab.begin(&booked, secs(0))), (Begun::Now, Begun::Now));
    // Both were counted in this minute.
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(50));
}

fn a_hold_changes_no_meter(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute", "9 / hour bucket"]);
    lab.take(&policy);
    let before = lab.peek(&policy);
    lab.feedback(&policy, hold(secs(10)));
    assert_eq!(lab.peek(&policy), before);
}

fn a_reset_ends_a_hold(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute"]);
    lab.feedback(&policy, hold(secs(10)));
    lab.reset(&policy);
    lab.at(1);
    lab.take(&policy);
}

fn what_is_left_is_lowered_by_grants_and_ends(lab: &Lab<'_>) {
    let policy = lab.policy(["50 / minute"]);
    lab.feedback(&policy, left(2, secs(20)));
    assert_eq!(lab.drain(&policy, 9), 2);
    let denied = lab.ask(&policy).denied();
    assert_eq!((denied.retry_after(), denied.held), (secs(20), false));
    lab.at(20);
    assert_eq!(lab.drain(&policy, 60), 48);
}

fn of_one_end_the_smaller_number_stays(lab: &Lab<'_>) {
    let policy = lab.policy(["50 / minute"]);
    lab.feedback(&policy, left(5, secs(20)));
    lab.feedback(&policy, left(7, secs(20)));
    lab.feedback(&policy, left(3, Span::from_millis(19_500)));
    assert_eq!(lab.drain(&policy, 9), 3);
    // The end of the first answer stays.
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(20));
    // One that ends long before came late.
    lab.feedback(&policy, left(40, secs(5)));
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(20));
}

fn a_later_end_replaces_what_is_left(lab: &Lab<'_>) {
    let policy = lab.policy(["50 / minute"]);
    lab.feedback(&policy, left(1, secs(20)));
    lab.feedback(&policy, left(4, secs(40)));
    assert_eq!(lab.drain(&policy, 9), 4);
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(40));
}

fn an_adaptive_limit_starts_at_its_rate(lab: &Lab<'_>) {
    let policy = lab.policy(["50 tokens / minute", "4 / second adaptive"]);
    assert_eq!(learned(lab, &policy).rate, 4_000_000);
    let permits = lab.book_permits(&policy, 3);
    let places: Vec<Span> = permits.iter().map(|permit| permit.booking.at.since(at(0))).collect();
    assert_eq!(places, [0, 250, 500].map(Span::from_millis));
    // A call is one call, whatever else it costs.
    assert_eq!(lab.ask(&policy).cost("tokens", 20).wait(secs(1)).granted().booking.at.since(at(0)), {
        Span::from_millis(750)
    });
}

fn a_new_rate_counts_from_its_time_on(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    lab.take(&policy);
    lab.set(at(0).plus(Span::from_millis(500)));
    // Half of the call has drained at the old rate; the other half takes two seconds at the new one.
    let learned = lab.feedback(&policy, change(rate(0, 250_000)));
    assert!(learned.written);
    let rate = learned.rate.unwrap();
    assert_eq!((rate.version, rate.rate, rate.available), (1, 250_000, 0));
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(2));
}

fn a_rate_of_an_old_version_is_not_written(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    assert!(lab.feedback(&policy, change(rate(0, 2_000_000))).written);
    let lost = lab.feedback(&policy, change(rate(0, 9_000_000)));
    assert!(!lost.written);
    assert_eq!(lost.rate.unwrap().rate, 2_000_000);
    let controller = "{}".to_owned();
    assert!(lab.feedback(&policy, change(RateChange { controller, ..rate(1, 3_000_000) })).written);
    let learned = learned(lab, &policy);
    assert_eq!((learned.version, learned.rate, &*learned.controller), (2, 3_000_000, "{}"));
}

fn a_cut_makes_earlier_permits_take_again(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    let permits = lab.book_permits(&policy, 3);
    let cut = RateChange { cut: true, ..rate(0, 500_000) };
    let learned = lab.feedback(&policy, Feedback { hold: secs(5), ..change(cut) });
    assert_eq!(learned.rate.map(|rate| (rate.cut, rate.cut_at)), Some((1, at(0))));
    assert_eq!(lab.begin(&permits[0], secs(60)), Begun::Early(secs(5)));
    lab.at(5);
    // One at a time, as fast as the new rate allows.
    for (permit, place) in permits.iter().zip([5, 7, 9]) {
        let begun = lab.begin(permit, secs(60));
        assert!(
            matches!(&begun, Begun::Again(decision) if decision.booking().unwrap().at == at(place)),
            "{begun:?}"
        );
    }
    // A permit from after the cut is good.
    lab.at(11);
    let after = lab.take(&policy);
    assert_eq!(lab.begin(&after, secs(0)), Begun::Now);
}

fn grants_are_counted_and_returned_ones_are_not(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    lab.feedback(&policy, change(RateChange { burst: 5, ..rate(0, 1_000_000) }));
    let permits: Vec<_> = (0..3).map(|_| lab.take(&policy)).collect();
    assert_eq!(permits[2].decision.charges[0].readings[0].grants, 3);
    lab.give_back(&permits[1]);
    let learned = learned(lab, &policy);
    assert_eq!((learned.grants, learned.available), (2, 3));
}

fn a_learned_rate_outlives_its_bucket(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    lab.feedback(&policy, change(rate(0, 7_000_000)));
    lab.at(20 * 86_400);
    lab.take(&policy);
    lab.at(49 * 86_400);
    assert_eq!(learned(lab, &policy).rate, 7_000_000);
}

fn a_burst_is_saved_up(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    lab.feedback(&policy, change(RateChange { burst: 3, ..rate(0, 1_000_000) }));
    assert_eq!(lab.drain(&policy, 9), 3);
    lab.at(2);
    assert_eq!(lab.drain(&policy, 9), 2);
}

fn a_controller_that_is_too_long_is_refused(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second adaptive"]);
    let controller = "x".repeat(1_025);
    let refused = lab.refused_feedback(&policy, change(RateChange { controller, ..rate(0, 1) }));
    assert_eq!(refused, Refusal::ControllerTooLong(1_025));
    assert_eq!(learned(lab, &policy).version, 0);
}

fn calls_left_bound_an_adaptive_limit(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / second adaptive"]);
    let two = RateChange { burst: 9, left: Some((2, secs(30))), ..rate(0, 9_000_000) };
    lab.feedback(&policy, change(two));
    assert_eq!(lab.drain(&policy, 9), 2);
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(30));
    // The next change says nothing about it.
    lab.feedback(&policy, change(RateChange { burst: 9, ..rate(1, 9_000_000) }));
    assert_eq!(lab.drain(&policy, 9), 7);
}
