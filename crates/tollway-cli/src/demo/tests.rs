//! What a demo looks like at a moment that was made up: to the letter, and never wider than it may be.

use anstream::adapter::strip_str;
use tollway::{Span, Timestamp};

use super::course::{Course, Killed, Plan};
use super::panel::{self, Row, WIDTH};
use super::quota::Quota;
use super::report::Report;

const STARTED_AT: Timestamp = Timestamp::from_secs(1_800_000_003);

/// A demo with two workers that started two seconds before its first whole minute.
fn course(limit: u64, with_tollway: bool) -> Course {
    let quota = Quota { limit, minute: Span::from_secs(5) };
    let mut course = Course::new(Plan { quota, minutes: 2, workers: 2, with_tollway }, STARTED_AT);
    course.pids = vec![101, 102, 103];
    course
}

/// These calls, each second one by the other worker, in the minute before the first whole one and in those after it.
fn call(course: &mut Course, calls_by_minute: &[usize]) {
    let quota = course.plan.quota;
    for (minute, &calls) in (course.first_minute() - 1..).zip(calls_by_minute) {
        for call in 0..calls {
            course.tally.admit(minute, call % 2 + 1, quota.limit);
        }
    }
}

fn kill(course: &mut Course, replaced_by: Option<usize>) {
    course.killed = Some(Killed { worker: 2, at: course.kills_at(), replaced_by });
}

fn plain(lines: impl IntoIterator<Item = String>) -> String {
    let text: Vec<String> = lines.into_iter().map(|line| strip_str(&line).to_string()).collect();
    text.join("\n") + "\n"
}

fn reported(course: &Course) -> String {
    plain(Report::of(course).lines())
}

#[test]
fn the_report_of_a_limit_that_was_kept() {
    let mut course = course(20, true);
    call(&mut course, &[7, 20, 20]);
    kill(&mut course, Some(3));
    course.now = course.ends_at();
    assert_eq!(reported(&course), include_str!("../../tests/golden/demo_report.txt"));
    assert!(Report::of(&course).is_good());
}

#[test]
fn the_report_of_a_limit_that_was_not_kept() {
    let mut course = course(20, false);
    call(&mut course, &[0, 22, 21]);
    kill(&mut course, Some(3));
    course.now = course.ends_at();
    assert_eq!(reported(&course), include_str!("../../tests/golden/demo_report_without.txt"));
    assert!(!Report::of(&course).is_good());
}

/// The killed worker held a permit, so one call was not made.
#[test]
fn a_call_that_was_lost_is_said() {
    let mut course = course(20, true);
    call(&mut course, &[7, 19, 20]);
    kill(&mut course, Some(3));
    course.now = course.ends_at();
    let report = reported(&course);
    assert!(report.contains("97.5 %   39 of 40 calls"), "{report}");
    assert!(report.contains("1 call   at most"), "{report}");
    assert!(!report.contains("few for this limit"), "{report}");
}

/// More than a killed worker can have held was left: that is not put on it.
#[test]
fn workers_that_are_too_slow_are_told_so() {
    let mut course = course(20, true);
    call(&mut course, &[7, 15, 20]);
    kill(&mut course, Some(3));
    course.now = course.ends_at();
    let report = reported(&course);
    assert!(report.contains("1 call   at most") && report.contains("few for this limit"), "{report}");
    assert!(Report::of(&course).is_good());
}

#[test]
fn a_demo_that_was_interrupted_has_fewer_whole_minutes() {
    let mut course = course(20, true);
    call(&mut course, &[7, 20, 3]);
    course.now = course.ends_at().minus(Span::from_secs(1));
    course.interrupted = true;
    let report = reported(&course);
    assert!(report.starts_with("With Tollway: 1 whole minute of 20 requests, ended early\n"), "{report}");
    assert!(report.contains("30   10 of them outside of whole minutes"), "{report}");
    course.now = STARTED_AT;
    let report = reported(&course);
    assert!(report.contains("no whole minute was watched"), "{report}");
}

#[test]
fn the_panel_in_the_second_minute() {
    let mut course = course(20, true);
    call(&mut course, &[7, 20, 10]);
    kill(&mut course, Some(3));
    course.now = course.ends_at().minus(Span::from_millis(2_499));
    let rows = panel::panel(&course).into_iter().map(Row::into_text);
    assert_eq!(plain(rows), include_str!("../../tests/golden/demo_panel.txt"));
}

/// The panel is drawn over itself, so a row that is too wide would leave something behind; so would a row too few.
#[test]
fn every_row_is_as_wide_as_the_panel() {
    let mut least = course(1, true);
    least.now = STARTED_AT;
    let mut most = course(2_000, false);
    most.plan.quota.minute = Span::from_secs(60);
    call(&mut most, &[2_999, 2_999, 2_999]);
    most.now = most.plan.quota.begin_of(most.first_minute());
    for course in [&mut least, &mut most] {
        let height = panel::panel(course).len();
        for replaced_by in [None, Some(3)] {
            kill(course, replaced_by);
            let rows = panel::panel(course);
            assert_eq!(rows.len(), height);
            let news = [
                panel::killed(64),
                panel::replaced(64, 65),
                panel::minute(course, course.first_minute() - 1),
            ];
            for row in rows.into_iter().chain(news) {
                let text = row.into_wide_text();
                assert_eq!(strip_str(&text).to_string().chars().count(), WIDTH, "{text}");
            }
        }
    }
}

#[test]
fn many_workers_are_summed_up() {
    let mut course = course(200, true);
    course.plan.workers = 64;
    call(&mut course, &[10]);
    let rows = plain(panel::panel(&course).into_iter().map(Row::into_text));
    assert!(rows.ends_with("\n\n  64 workers made 0 to 5 calls each\n"), "{rows}");
}

/// Workers could make about twice the calls that are allowed, whatever the numbers.
#[test]
fn the_vendor_answers_fast_enough_for_its_limit() {
    for (limit, workers, minute) in [(200, 8, 5), (1, 1, 1), (2_000, 1, 1), (2_000, 64, 60), (1, 64, 60)] {
        let quota = Quota { limit, minute: Span::from_secs(minute) };
        let calls_of_one = Span::from(quota.latency(workers)).times(limit).as_micros() / workers as u64;
        assert!(calls_of_one <= quota.minute.as_micros() / 2, "{limit} {workers} {minute}");
        assert!(quota.latency(workers) <= std::time::Duration::from(quota.edge()));
    }
}
