//! Exact output of a demo in made-up states, and the width of its rows.

use anstream::adapter::strip_str;
use tollway::{Span, Timestamp};

use super::panel::{self, Row, WIDTH};
use super::quota::Quota;
use super::report::Report;
use super::state::{DemoState, Killed, Plan};

const STARTED_AT: Timestamp = Timestamp::from_secs(1_800_000_003);

/// A demo with two workers that started two seconds before its first full minute.
fn state(limit: u64, with_tollway: bool) -> DemoState {
    let quota = Quota { limit, minute: Span::from_secs(5) };
    let mut state = DemoState::new(Plan { quota, minutes: 2, workers: 2, with_tollway }, STARTED_AT);
    state.pids = vec![101, 102, 103];
    state
}

/// Adds calls of alternating workers, from the minute before the first full one.
fn call(state: &mut DemoState, calls_by_minute: &[usize]) {
    let quota = state.plan.quota;
    for (minute, &calls) in (state.first_minute() - 1..).zip(calls_by_minute) {
        for call in 0..calls {
            state.tally.admit(minute, call % 2 + 1, quota.limit);
        }
    }
}

fn kill(state: &mut DemoState, replaced_by: Option<usize>) {
    state.killed = Some(Killed { worker: 2, at: state.kills_at(), replaced_by });
}

fn plain(lines: impl IntoIterator<Item = String>) -> String {
    let text: Vec<String> = lines.into_iter().map(|line| strip_str(&line).to_string()).collect();
    text.join("\n") + "\n"
}

fn reported(state: &DemoState) -> String {
    plain(Report::of(state).lines())
}

#[test]
fn report_with_the_limit_kept() {
    let mut state = state(20, true);
    call(&mut state, &[7, 20, 20]);
    kill(&mut state, Some(3));
    state.now = state.ends_at();
    assert_eq!(reported(&state), include_str!("../../tests/golden/demo_report.txt"));
    assert!(Report::of(&state).is_good());
}

#[test]
fn report_with_the_limit_exceeded() {
    let mut state = state(20, false);
    call(&mut state, &[0, 22, 21]);
    kill(&mut state, Some(3));
    state.now = state.ends_at();
    assert_eq!(reported(&state), include_str!("../../tests/golden/demo_report_without.txt"));
    assert!(!Report::of(&state).is_good());
}

/// The killed worker held a permit, so one call was not made.
#[test]
fn report_names_a_lost_call() {
    let mut state = state(20, true);
    call(&mut state, &[7, 19, 20]);
    kill(&mut state, Some(3));
    state.now = state.ends_at();
    let report = reported(&state);
    assert!(report.contains("97.5 %   39 of 40 calls"), "{report}");
    assert!(report.contains("1 call   at most"), "{report}");
    assert!(!report.contains("too few for this limit"), "{report}");
}

/// More of the quota is unused than a killed worker can have held.
#[test]
fn report_names_workers_that_are_too_slow() {
    let mut state = state(20, true);
    call(&mut state, &[7, 15, 20]);
    kill(&mut state, Some(3));
    state.now = state.ends_at();
    let report = reported(&state);
    assert!(report.contains("1 call   at most") && report.contains("too few for this limit"), "{report}");
    assert!(Report::of(&state).is_good());
}

#[test]
fn interrupted_demo_has_fewer_full_minutes() {
    let mut state = state(20, true);
    call(&mut state, &[7, 20, 3]);
    state.now = state.ends_at().minus(Span::from_secs(1));
    state.interrupted = true;
    let report = reported(&state);
    assert!(report.starts_with("With Tollway: 1 full minute of 20 requests, ended early\n"), "{report}");
    assert!(report.contains("30   10 outside full minutes"), "{report}");
    state.now = STARTED_AT;
    let report = reported(&state);
    assert!(report.contains("no full minute"), "{report}");
}

#[test]
fn panel_in_the_second_minute() {
    let mut state = state(20, true);
    call(&mut state, &[7, 20, 10]);
    kill(&mut state, Some(3));
    state.now = state.ends_at().minus(Span::from_millis(2_499));
    let rows = panel::panel(&state).into_iter().map(Row::into_text);
    assert_eq!(plain(rows), include_str!("../../tests/golden/demo_panel.txt"));
}

/// The panel is redrawn in place: a wider row or a missing row would leave text behind.
#[test]
fn every_row_has_the_width_of_the_panel() {
    let mut least = state(1, true);
    least.now = STARTED_AT;
    let mut most = state(2_000, false);
    most.plan.quota.minute = Span::from_secs(60);
    call(&mut most, &[2_999, 2_999, 2_999]);
    most.now = most.plan.quota.begin_of(most.first_minute());
    for state in [&mut least, &mut most] {
        let height = panel::panel(state).len();
        for replaced_by in [None, Some(3)] {
            kill(state, replaced_by);
            let rows = panel::panel(state);
            assert_eq!(rows.len(), height);
            let news =
                [panel::killed(64), panel::replaced(64, 65), panel::minute(state, state.first_minute() - 1)];
            for row in rows.into_iter().chain(news) {
                let text = row.into_wide_text();
                assert_eq!(strip_str(&text).to_string().chars().count(), WIDTH, "{text}");
            }
        }
    }
}

#[test]
fn many_workers_are_summed_up() {
    let mut state = state(200, true);
    state.plan.workers = 64;
    call(&mut state, &[10]);
    let rows = plain(panel::panel(&state).into_iter().map(Row::into_text));
    assert!(rows.ends_with("\n\n  64 workers made 0 to 5 calls each\n"), "{rows}");
}

/// Workers could make about twice the allowed calls, for all settings.
#[test]
fn vendor_is_fast_enough_for_its_limit() {
    for (limit, workers, minute) in [(200, 8, 5), (1, 1, 5), (2_000, 1, 5), (2_000, 64, 60), (1, 64, 60)] {
        let quota = Quota { limit, minute: Span::from_secs(minute) };
        let calls_of_one = Span::from(quota.latency(workers)).times(limit).as_micros() / workers as u64;
        assert!(calls_of_one <= quota.minute.as_micros() / 2, "{limit} {workers} {minute}");
        assert!(quota.latency(workers) <= std::time::Duration::from(quota.edge()));
    }
}
