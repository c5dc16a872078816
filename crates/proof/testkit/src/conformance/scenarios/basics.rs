//! Each algorithm by itself.

use tollway_core::{Span, Timestamp};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    window_grants_its_amount_and_resets,
    a_window_from_first_call_starts_at_its_first_take,
    sliding_window_weights_the_previous_one,
    a_bucket_refills_continuously,
    bucket_accumulates_up_to_its_burst,
    a_paced_limit_spaces_calls_evenly,
    costs_count_in_their_units,
    a_zero_amount_is_not_checked,
    subjects_do_not_share,
    readings_show_remaining_and_reset_time,
    a_batch_is_answered_in_order,
];

fn window_grants_its_amount_and_resets(lab: &Lab<'_>) {
    let policy = lab.policy(["3 / minute"]);
    lab.at(10);
    assert_eq!(lab.drain(&policy, 9), 3);
    let denial = lab.ask(&policy).denied();
    assert_eq!(denial.retry_after(), secs(50));
    lab.set(at(60).minus(Span::from_micros(1)));
    lab.ask(&policy).denied();
    lab.at(60);
    assert_eq!(lab.drain(&policy, 9), 3);
}

fn a_window_from_first_call_starts_at_its_first_take(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute from first call"]);
    lab.at(50);
    let first = lab.take(&policy);
    assert_eq!(first.booking.good_until, at(110));
    lab.at(70);
    lab.take(&policy);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(110));
    lab.at(130);
    assert_eq!(lab.take(&policy).booking.good_until, at(190));
}

fn sliding_window_weights_the_previous_one(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / minute sliding"]);
    lab.at(30);
    assert_eq!(lab.drain(&policy, 99), 10);
    lab.at(60);
    let denial = lab.ask(&policy).denied();
    assert_eq!(denial.retry_at, at(66));
    lab.at(90);
    assert_eq!(lab.drain(&policy, 99), 5);
}

fn a_bucket_refills_continuously(lab: &Lab<'_>) {
    let policy = lab.policy(["60 / minute bucket"]);
    assert_eq!(lab.drain(&policy, 99), 60);
    assert_eq!(lab.ask(&policy).denied().retry_after(), secs(1));
    lab.at(3);
    assert_eq!(lab.drain(&policy, 99), 3);
}

fn bucket_accumulates_up_to_its_burst(lab: &Lab<'_>) {
    let policy = lab.policy(["60 / minute bucket burst 5"]);
    assert_eq!(lab.drain(&policy, 99), 5);
    lab.at(3_600);
    assert_eq!(lab.drain(&policy, 99), 5);
    assert_eq!(lab.book_times(&policy, 3), [at(3_601), at(3_602), at(3_603)]);
}

fn a_paced_limit_spaces_calls_evenly(lab: &Lab<'_>) {
    let policy = lab.policy(["4 / second paced"]);
    let millis = |millis| at(0).plus(Span::from_millis(millis));
    assert_eq!(lab.book_times(&policy, 4), [millis(0), millis(250), millis(500), millis(750)]);
}

fn costs_count_in_their_units(lab: &Lab<'_>) {
    let policy = lab.policy(["5 / minute", "1k tokens / minute"]);
    lab.ask(&policy).cost("tokens", 700).granted();
    assert_eq!(lab.used(&policy), [1, 700]);
    let denial = lab.ask(&policy).cost("tokens", 301).denied();
    assert_eq!(denial.limit, 1);
    lab.ask(&policy).cost("tokens", 300).granted();
    assert_eq!(lab.used(&policy), [2, 1_000]);
}

fn a_zero_amount_is_not_checked(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute", "5 tokens / minute"]);
    lab.ask(&policy).cost("tokens", 5).granted();
    lab.ask(&policy).cost("requests", 0).cost("tokens", 0).granted();
    assert_eq!(lab.used(&policy), [1, 5]);
}

fn subjects_do_not_share(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / minute"]);
    for subject in ["", "a", "b", "a b", "a:b", "1:1:a:", "A", "\u{e4}\r\n{x}*"] {
        lab.ask(&policy).subject(subject).granted();
        lab.ask(&policy).subject(subject).denied();
    }
}

fn readings_show_remaining_and_reset_time(lab: &Lab<'_>) {
    let policy = lab.policy(["10 / minute", "60 tokens / minute bucket"]);
    lab.at(15);
    lab.ask(&policy).cost("tokens", 30).granted();
    let readings = lab.peek(&policy);
    let read: Vec<(u64, u64, Timestamp)> =
        readings.iter().map(|reading| (reading.used, reading.remaining, reading.resets_at)).collect();
    assert_eq!(read, [(1, 9, at(60)), (30, 30, at(45))]);
    lab.at(45);
    assert_eq!(lab.peek(&policy)[1].remaining, 60);
}

fn a_batch_is_answered_in_order(lab: &Lab<'_>) {
    let policy = lab.policy(["2 / minute"]);
    let granted = lab.batch(&policy, 4);
    assert_eq!(granted, [true, true, false, false]);
}
