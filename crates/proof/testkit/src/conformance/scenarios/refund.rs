//! Return and settle: exact where possible, never above the limit, once.

use tollway_core::{Outcome, Refusal, Settled};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    the_last_booking_is_returned_exactly,
    renewal_between_booking_and_return_is_undone_with_it,
    a_middle_booking_of_a_window_frees_its_unit,
    a_middle_booking_of_a_bucket_stays_spent,
    a_booking_in_a_past_window_is_lost,
    returned_take_is_fully_credited,
    a_settle_corrects_its_window,
    a_settle_after_its_window_changes_nothing,
    an_overrun_lifts_a_window_above_its_limit,
    a_settle_credits_a_bucket_now,
    an_old_permit_credits_no_bucket,
    overrun_puts_a_bucket_into_debt,
    an_overrun_of_more_than_a_burst_is_refused,
    a_remembered_refund_counts_once,
    refunds_are_remembered_up_to_a_bound,
    a_refund_over_policies_counts_once_in_any_order,
    reset_clears_usage_and_drops_older_permits,
    reset_drops_bookings_ahead,
];

fn the_last_booking_is_returned_exactly(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute", "60 tokens / minute bucket"]);
    lab.ask(&policy).cost("tokens", 50).granted();
    lab.at(5);
    let before = lab.peek(&policy);
    let place = lab.ask(&policy).cost("tokens", 60).wait(secs(60)).granted();
    assert_eq!(lab.give_back(&place), Settled::Whole);
    assert_eq!(lab.peek(&policy), before);
    assert_eq!(lab.ask(&policy).wait(secs(60)).granted().booking.at, at(60));
}

/// A booking brings meters to its time at the rate of then; a renewal must not keep them there.
fn renewal_between_booking_and_return_is_undone_with_it(lab: &Lab<'_>) {
    let policy = lab.policy(["4 / 8 seconds paced"]);
    let slower = vec!["2 / 8 seconds paced".parse().expect("the scenario's limit is right")];
    let slower = policy.with_limits(slower).expect("the limit fits");
    lab.take(&policy);
    let place = lab.ask(&policy).wait(secs(9)).granted();
    assert_eq!(place.booking.at, at(2));
    lab.at(1);
    assert!(lab.renew(&place));
    assert_eq!(lab.give_back(&place), Settled::Whole);
    // Half has refilled at the old rate, and the other half takes two seconds.
    assert_eq!(lab.ask(&slower).denied().retry_at, at(3));
}

fn a_middle_booking_of_a_window_frees_its_unit(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    lab.drain(&policy, 2);
    let middle = lab.ask(&policy).wait(secs(60)).granted();
    assert_eq!(lab.ask(&policy).wait(secs(60)).granted().booking.at, at(60));
    assert_eq!(lab.give_back(&middle), Settled::Whole);
    assert_eq!(lab.ask(&policy).wait(secs(60)).granted().booking.at, at(60));
}

fn a_middle_booking_of_a_bucket_stays_spent(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second bucket"]);
    lab.take(&policy);
    let middle = lab.ask(&policy).wait(secs(9)).granted();
    lab.ask(&policy).wait(secs(9)).granted();
    assert_eq!(lab.give_back(&middle), Settled::Partly);
    assert_eq!(lab.ask(&policy).wait(secs(9)).granted().booking.at, at(3));
}

fn a_booking_in_a_past_window_is_lost(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    let first = lab.take(&policy);
    lab.ask(&policy).wait(secs(60)).granted();
    assert_eq!(lab.give_back(&first), Settled::Partly);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(120));
}

fn returned_take_is_fully_credited(lab: &Lab<'_>) {
    for limit in ["2 / minute", "2 / minute bucket", "2 / minute sliding", "2 concurrent"] {
        let policy = lab.policy([limit]);
        lab.at(1);
        let first = lab.take(&policy);
        lab.take(&policy);
        assert_eq!(lab.give_back(&first), Settled::Whole, "{limit}");
        assert_eq!(lab.drain(&policy, 9), 1, "{limit}");
    }
}

fn a_settle_corrects_its_window(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute", "1k tokens / minute"]);
    let permit = lab.ask(&policy).cost("tokens", 800).granted();
    lab.at(30);
    assert_eq!(lab.settle(&permit, [("tokens", 300)]), Settled::Whole);
    assert_eq!(lab.used(&policy), [1, 300]);
}

fn a_settle_after_its_window_changes_nothing(lab: &Lab<'_>) {
    let policy = lab.policy(["1k tokens / minute"]);
    let permit = lab.ask(&policy).cost("tokens", 800).granted();
    lab.at(60);
    lab.ask(&policy).cost("tokens", 500).granted();
    assert_eq!(lab.settle(&permit, [("tokens", 0)]), Settled::Partly);
    assert_eq!(lab.settle(&permit, [("tokens", 900)]), Settled::Partly);
    assert_eq!(lab.used(&policy), [500]);
}

fn an_overrun_lifts_a_window_above_its_limit(lab: &Lab<'_>) {
    let policy = lab.policy(["1k tokens / minute"]);
    let permit = lab.ask(&policy).cost("tokens", 800).granted();
    assert_eq!(lab.settle(&permit, [("tokens", 5_000)]), Settled::Whole);
    let reading = lab.peek(&policy)[0];
    assert_eq!((reading.used, reading.remaining), (5_000, 0));
    lab.at(60);
    lab.ask(&policy).cost("tokens", 1_000).granted();
}

fn a_settle_credits_a_bucket_now(lab: &Lab<'_>) {
    let policy = lab.policy(["60 tokens / minute bucket"]);
    let permit = lab.ask(&policy).cost("tokens", 60).granted();
    lab.at(10);
    assert_eq!(lab.settle(&permit, [("tokens", 20)]), Settled::Whole);
    assert_eq!(lab.used(&policy), [10]);
}

fn an_old_permit_credits_no_bucket(lab: &Lab<'_>) {
    let policy = lab.policy(["60 tokens / minute bucket"]);
    let permit = lab.ask(&policy).cost("tokens", 60).granted();
    lab.at(61);
    lab.ask(&policy).cost("tokens", 60).granted();
    assert_eq!(lab.settle(&permit, [("tokens", 0)]), Settled::Partly);
    assert_eq!(lab.used(&policy), [60]);
}

fn overrun_puts_a_bucket_into_debt(lab: &Lab<'_>) {
    let policy = lab.policy(["60 tokens / minute bucket"]);
    let permit = lab.ask(&policy).cost("tokens", 60).granted();
    assert_eq!(lab.settle(&permit, [("tokens", 120)]), Settled::Whole);
    assert_eq!(lab.ask(&policy).cost("tokens", 1).denied().retry_at, at(61));
}

fn an_overrun_of_more_than_a_burst_is_refused(lab: &Lab<'_>) {
    let policy = lab.policy(["60 tokens / minute bucket"]);
    let permit = lab.ask(&policy).cost("tokens", 10).granted();
    let outcome = lab.try_settle(&permit, [("tokens", 71)], false);
    assert!(matches!(outcome, Outcome::Refused(Refusal::OverrunTooLarge { overrun: 61, burst: 60, .. })));
    assert_eq!(lab.used(&policy), [10]);
}

fn a_remembered_refund_counts_once(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]);
    let (first, _second) = (lab.take(&policy), lab.take(&policy));
    assert_eq!(lab.give_back_remembered(&first, true), Settled::Whole);
    assert_eq!(lab.give_back_remembered(&first, true), Settled::Repeated);
    assert_eq!(lab.try_settle(&first, [("requests", 0)], true), Outcome::Settled(Settled::Repeated));
    assert_eq!(lab.used(&policy), [1]);
}

fn refunds_are_remembered_up_to_a_bound(lab: &Lab<'_>) {
    let policy = lab.policy(["5k / minute"]);
    for _ in 0..1_024 {
        let permit = lab.take(&policy);
        assert_eq!(lab.give_back_remembered(&permit, true), Settled::Whole);
    }
    let one_more = lab.take(&policy);
    assert_eq!(lab.give_back_remembered(&one_more, true), Settled::Dropped);
    assert_eq!(lab.used(&policy), [1]);
}

fn a_refund_over_policies_counts_once_in_any_order(lab: &Lab<'_>) {
    let (minute, month) = (lab.policy(["9 / minute"]), lab.policy(["9 / month"]));
    let mut permit = lab.ask(&minute).and(&month).granted();
    lab.take(&month);
    assert_eq!(lab.give_back_remembered(&permit, true), Settled::Whole);
    permit.charges.reverse();
    assert_eq!(lab.give_back_remembered(&permit, true), Settled::Repeated);
    lab.at(3_600);
    assert_eq!(lab.give_back_remembered(&permit, true), Settled::Repeated);
    assert_eq!(lab.used(&month), [1]);
}

fn reset_clears_usage_and_drops_older_permits(lab: &Lab<'_>) {
    let policy = lab.policy(["3 / minute", "5 concurrent"]);
    let old = lab.take(&policy);
    lab.at(1);
    lab.reset(&policy);
    assert_eq!(lab.used(&policy), [0, 0]);
    lab.at(2);
    let new = lab.take(&policy);
    assert_eq!(lab.give_back(&old), Settled::Dropped);
    assert_eq!(lab.used(&policy), [1, 1]);
    assert_eq!(lab.give_back(&new), Settled::Whole);
    assert_eq!(lab.used(&policy), [0, 0]);
}

fn reset_drops_bookings_ahead(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    let places = lab.book_permits(&policy, 5);
    lab.reset(&policy);
    assert_eq!(lab.peek(&policy)[0].as_of, at(0));
    // Longer than a window, but before the last booking: the reset must still be remembered.
    lab.at(240);
    lab.take(&policy);
    assert_eq!(lab.give_back(&places[4]), Settled::Dropped);
    assert_eq!(lab.used(&policy), [1]);
}
