//! Days, weeks and months of a zone, and the edges of windows.

use tollway_core::{Span, Timestamp};

use crate::conformance::lab::{Lab, at, secs};

super::list![
    a_day_ends_at_midnight_of_its_zone,
    a_day_has_23_hours_when_clocks_go_forward,
    a_day_has_25_hours_when_clocks_go_back,
    a_week_begins_on_monday,
    months_have_their_own_lengths,
    nothing_is_granted_in_an_edge,
    an_edge_is_at_most_a_twentieth,
    an_edge_costs_no_quota,
];

/// The eighth of March 2026 at midnight in Los Angeles.
const MARCH_8: Timestamp = Timestamp::from_secs(1_772_956_800);
/// The first of November 2026 at midnight in Los Angeles.
const NOVEMBER_1: Timestamp = Timestamp::from_secs(1_793_516_400);
const HOUR: Span = Span::from_hours(1);

fn a_day_ends_at_midnight_of_its_zone(lab: &Lab<'_>) {
    let policy = lab.policy(["25 / day in America/Los_Angeles"]);
    lab.at(12 * 3_600);
    assert_eq!(lab.drain(&policy, 99), 25);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(32 * 3_600));
}

fn a_day_has_23_hours_when_clocks_go_forward(lab: &Lab<'_>) {
    day_of(lab, MARCH_8, 23);
}

fn a_day_has_25_hours_when_clocks_go_back(lab: &Lab<'_>) {
    day_of(lab, NOVEMBER_1, 25);
}

fn day_of(lab: &Lab<'_>, midnight: Timestamp, hours: u64) {
    let policy = lab.policy(["1 / day in America/Los_Angeles"]);
    lab.set(midnight.minus(Span::from_micros(1)));
    lab.take(&policy);
    lab.set(midnight);
    lab.take(&policy);
    let next = midnight.plus(HOUR.times(hours));
    assert_eq!(lab.ask(&policy).denied().retry_at, next);
    lab.set(next.minus(Span::from_micros(1)));
    lab.ask(&policy).denied();
    lab.set(next);
    lab.take(&policy);
}

fn a_week_begins_on_monday(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / week"]);
    lab.take(&policy);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(4 * 86_400));
}

fn months_have_their_own_lengths(lab: &Lab<'_>) {
    let policy = lab.policy(["1 / month"]);
    let mut first = 0;
    for days in [31, 28, 31, 30] {
        lab.at(first + 86_400);
        lab.take(&policy);
        first += days * 86_400;
        assert_eq!(lab.ask(&policy).denied().retry_at, at(first));
    }
}

fn nothing_is_granted_in_an_edge(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]).with_edge(secs(2));
    lab.at(61);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(62));
    assert_eq!(lab.ask(&policy).wait(secs(5)).granted().booking.at, at(62));
    lab.at(62);
    assert_eq!(lab.take(&policy).booking.good_until, at(118));
    lab.set(at(118).minus(Span::from_micros(1)));
    lab.take(&policy);
    lab.at(118);
    assert_eq!(lab.ask(&policy).denied().retry_at, at(122));
}

fn an_edge_is_at_most_a_twentieth(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / second"]).with_edge(secs(2));
    lab.at(5);
    assert_eq!(lab.ask(&policy).denied().retry_after(), Span::from_millis(50));
}

fn an_edge_costs_no_quota(lab: &Lab<'_>) {
    let policy = lab.policy(["9 / minute"]).with_edge(secs(2));
    lab.at(30);
    assert_eq!(lab.drain(&policy, 99), 9);
    lab.at(90);
    assert_eq!(lab.drain(&policy, 99), 9);
}
