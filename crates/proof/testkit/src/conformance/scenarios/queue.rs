//! The queue: a waiting take books its time at once, first come, first served.

use tollway_core::Span;

use crate::conformance::lab::{Lab, at, secs};

super::list![
    take_that_may_wait_is_booked,
    bookings_are_in_order,
    later_take_does_not_overtake_the_queue,
    booking_beyond_max_wait_is_denied_with_its_time,
    a_policy_caps_the_wait,
    booking_counts_in_its_own_window,
    retry_at_is_exact,
    readings_describe_the_frontier,
    sliding_and_slots_never_book_ahead,
    a_booking_moves_the_frontier_not_the_time,
    preview_matches_the_take_and_changes_nothing,
];

fn take_that_may_wait_is_booked(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    lab.drain(&policy, 2);
    let permit = lab.ask(&policy).wait(secs(60)).granted();
    assert_eq!((permit.booking.at, permit.booking.good_until), (at(60), at(120)));
    assert_eq!(permit.decision.wait(), secs(60));
}

fn bookings_are_in_order(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    let places = lab.book_times(&policy, 7);
    assert_eq!(places, [at(0), at(0), at(60), at(60), at(120), at(120), at(180)]);
}

fn later_take_does_not_overtake_the_queue(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / second bucket burst 10"]);
    lab.ask(&policy).cost("requests", 5).granted();
    assert_eq!(lab.ask(&policy).cost("requests", 10).wait(secs(9)).granted().booking.at, at(5));
    // One unit would fit now, but a booking ahead needs it.
    let denial = lab.ask(&policy).denied();
    assert_eq!(denial.retry_at, at(6));
    assert_eq!(lab.ask(&policy).wait(secs(9)).granted().booking.at, at(6));
}

fn booking_beyond_max_wait_is_denied_with_its_time(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    lab.take(&policy);
    let just_short = Span::from_micros(secs(60).as_micros() - 1);
    assert_eq!(lab.ask(&policy).wait(just_short).denied().retry_at, at(60));
    assert_eq!(lab.used(&policy), [1]);
    lab.ask(&policy).wait(secs(60)).granted();
}

fn a_policy_caps_the_wait(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]).with_max_wait(secs(30)).unwrap();
    lab.take(&policy);
    lab.ask(&policy).wait(secs(600)).denied();
    lab.at(30);
    lab.ask(&policy).wait(secs(600)).granted();
}

fn booking_counts_in_its_own_window(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute", "60 tokens / minute bucket"]);
    lab.ask(&policy).cost("tokens", 60).granted();
    let place = lab.ask(&policy).cost("tokens", 60).wait(secs(60)).granted();
    assert_eq!(place.booking.at, at(60));
    lab.at(60);
    assert_eq!(lab.used(&policy), [1, 60]);
}

fn retry_at_is_exact(lab: &Lab<'_>) {
    for limit in ["7 / minute", "7 / minute bucket", "7 / minute sliding", "7 / minute from first call"] {
        let policy = lab.policy([limit]);
        lab.at(1);
        lab.drain(&policy, 7);
        let denial = lab.ask(&policy).cost("requests", 3).denied();
        lab.set(denial.retry_at.minus(Span::from_micros(1)));
        let early = lab.ask(&policy).cost("requests", 3).decide();
        assert!(!early.is_granted(), "{limit}: granted before the time it named");
        lab.set(denial.retry_at);
        let decision = lab.ask(&policy).cost("requests", 3).decide();
        assert!(decision.is_granted(), "{limit}: denied at the time it named");
    }
}

fn readings_describe_the_frontier(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    lab.book_times(&policy, 3);
    let reading = lab.peek(&policy)[0];
    assert_eq!((reading.as_of, reading.used, reading.remaining), (at(60), 1, 1));
}

fn sliding_and_slots_never_book_ahead(lab: &Lab<'_>) {
    for limit in ["1 / minute sliding", "1 concurrent"] {
        let policy = lab.policy([limit]);
        lab.take(&policy);
        lab.ask(&policy).wait(secs(600)).denied();
    }
}

fn a_booking_moves_the_frontier_not_the_time(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    lab.book_times(&policy, 3);
    lab.at(10);
    let permit = lab.ask(&policy).wait(secs(600)).granted();
    assert_eq!((permit.decision.now, permit.booking.at), (at(10), at(180)));
}

fn preview_matches_the_take_and_changes_nothing(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute", "3 / day"]);
    for granted in [true, true, false] {
        let used = lab.used(&policy);
        for _ in 0..2 {
            assert_eq!(lab.ask(&policy).preview().is_granted(), granted);
        }
        assert_eq!(lab.used(&policy), used);
        lab.ask(&policy).decide();
    }
    let preview = lab.ask(&policy).wait(secs(60)).preview();
    let place = preview.booking().expect("it may wait");
    assert_eq!(place.at, at(60));
    assert_eq!(lab.ask(&policy).wait(secs(60)).granted().booking.at, at(60));
    let preview = lab.ask(&policy).wait(secs(60)).preview();
    let denial = preview.denial().expect("the day is over");
    assert_eq!((denial.retry_at, denial.limit), (at(86_400), 1));
}
