//! Exact output of a demo in made-up states, and the width of its rows.

use anstream::adapter::strip_str;
use tollway::{Span, Timestamp};

use super::alone::AloneProgress;
use super::audit::Audit;
use super::panel;
use super::pipeline::Redriven;
use super::quota::Quota;
use super::report::DemoReport;
use super::row::{Row, WIDTH};
use super::state::{DemoState, Event, Killed, Plan, Side, StageView};
use super::worker::AfterRefusal;

const STARTED_AT: Timestamp = Timestamp::from_secs(1_800_000_003);

/// A demo of 20 jobs that started two seconds before its first full minute.
fn state(limit: u64, without: Option<AfterRefusal>) -> DemoState {
    let quota = Quota::new(limit, Span::from_secs(5));
    DemoState::new(Plan { jobs: 20, workers: 4, without }, quota, STARTED_AT)
}

/// Adds calls of two workers in turn, from the minute before the first full one.
fn call(side: &mut Side, quota: &Quota, calls_by_minute: &[u64]) {
    for (minute, &calls) in (quota.minute_at(STARTED_AT)..).zip(calls_by_minute) {
        for call in 0..calls {
            side.tally.admit(minute, 101 + u32::from(call % 2 == 0), quota.limit_in(minute));
        }
    }
}

/// All that happens: 20 jobs, 40 completions, three failed tries for each of three dead letters, a call repeated.
fn finished(without: Option<AfterRefusal>) -> DemoState {
    let mut state = state(20, without);
    let (first, at) = (state.first_minute(), STARTED_AT.plus(Span::from_secs(4)));
    state.quota.change(first + 1, 10);
    state.quota.change(first + 2, 20);
    let quota = state.quota.clone();
    call(&mut state.tollway, &quota, &[7, 20, 10, 13]);
    let end = quota.begin_of(first + 2).plus(Span::from_millis(2_500));
    (state.now, state.failures) = (end, 9);
    (state.tollway.busy_until, state.tollway.ended_at) = (Some(end.minus(Span::from_secs(1))), Some(end));
    state.stages = [StageView { done: 20, ..StageView::default() }; 2];
    let killed = Killed { worker: 101, document: 8, at };
    state.tollway.killed = Some(killed);
    state.events = vec![
        Event::Lowered { limit: 10, from: first + 1 },
        Event::Killed { alone: false, killed },
        Event::Restored { limit: 20 },
        Event::Redriven(Redriven { jobs: 3, error: "unknown page size \"Z9\"".to_owned() }),
    ];
    if let Some(alone) = &mut state.alone {
        alone.progress = AloneProgress { done: 16, failed: 3, killed: 1 };
        call(&mut alone.side, &quota, &[15, 30, 30, 15]);
        alone.side.killed = Some(killed);
        (alone.side.busy_until, alone.side.ended_at) = (Some(end), Some(end));
    }
    state
}

const ALL_DONE: Audit = Audit { done: 20, dead: 0, open: 0, lost: 0, committed_twice: 0, completions: 40 };

fn plain(lines: impl IntoIterator<Item = String>) -> String {
    let text: Vec<String> = lines.into_iter().map(|line| strip_str(&line).to_string()).collect();
    text.join("\n") + "\n"
}

fn drawn(rows: Vec<Row>) -> String {
    plain(rows.into_iter().map(Row::into_text))
}

fn reported(state: &DemoState, audit: Audit) -> String {
    plain(DemoReport::of(state, audit).lines())
}

#[test]
fn report_of_a_demo() {
    let state = finished(None);
    assert_eq!(reported(&state, ALL_DONE), include_str!("../../tests/golden/demo_report.txt"));
    assert!(DemoReport::of(&state, ALL_DONE).is_good());
}

#[test]
fn report_of_both_sides() {
    let state = finished(Some(AfterRefusal::AtOnce));
    assert_eq!(reported(&state, ALL_DONE), include_str!("../../tests/golden/demo_report_without.txt"));
    assert!(DemoReport::of(&state, ALL_DONE).is_good(), "what the others do alone is not Tollway's failure");
}

/// Each of these alone makes the demo fail.
#[test]
fn broken_promises_are_failures() {
    let broken = [
        Audit { done: 19, lost: 1, ..ALL_DONE },
        Audit { committed_twice: 1, ..ALL_DONE },
        Audit { done: 19, dead: 1, ..ALL_DONE },
        Audit { done: 19, open: 1, ..ALL_DONE },
    ];
    for audit in broken {
        assert!(!DemoReport::of(&finished(None), audit).is_good(), "{audit:?}");
    }
    let mut refused = finished(None);
    let quota = refused.quota.clone();
    call(&mut refused.tollway, &quota, &[0, 1]);
    let report = reported(&refused, ALL_DONE);
    assert!(report.contains("refused by the vendor             1\n"), "{report}");
    assert!(!DemoReport::of(&refused, ALL_DONE).is_good());
}

#[test]
fn report_names_workers_that_are_too_slow() {
    let mut state = state(20, None);
    let quota = state.quota.clone();
    call(&mut state.tollway, &quota, &[7, 15, 20]);
    state.now = state.quota.begin_of(state.first_minute() + 2);
    let report = reported(&state, ALL_DONE);
    assert!(report.contains("87.5 %   35 of 40 in 2 full minutes"), "{report}");
    assert!(report.contains("too few for this limit"), "{report}");
    assert!(DemoReport::of(&state, ALL_DONE).is_good());
}

/// Jobs that wait when the demo is interrupted are not lost, and no failure.
#[test]
fn interrupted_demo_reports_what_is_queued() {
    for without in [None, Some(AfterRefusal::RetryAfter)] {
        let mut state = state(20, without);
        state.interrupted = true;
        let audit = Audit { done: 5, dead: 3, open: 12, ..Audit::default() };
        let report = reported(&state, audit);
        assert!(report.starts_with("20 jobs in two stages, 4 workers, ended early\n"), "{report}");
        assert!(report.contains("  jobs still queued  ") && report.contains(" 12"), "{report}");
        assert!(DemoReport::of(&state, audit).is_good());
        if without.is_none() {
            assert!(report.contains("-   no full minute") && report.contains("0   3 left"), "{report}");
        }
    }
}

#[test]
fn panel_of_one_side() {
    let mut state = finished(None);
    state.tollway.busy_until = None;
    state.stages = [
        StageView { done: 12, ready: 4, running: 4, dead: 0 },
        StageView { done: 9, ready: 0, running: 1, dead: 2 },
    ];
    let events: Vec<Row> = state.events.iter().map(|event| panel::event(&state, event)).collect();
    let minutes =
        (state.first_minute() - 1..=state.first_minute() + 1).map(|minute| panel::minute(&state, minute));
    let rows = panel::opening(&state).into_iter().chain(minutes).chain(events).chain(panel::panel(&state));
    assert_eq!(drawn(rows.collect()), include_str!("../../tests/golden/demo_panel.txt"));
}

#[test]
fn panel_of_both_sides() {
    let mut state = finished(Some(AfterRefusal::AtOnce));
    let killed = Killed { worker: 202, document: 9, at: STARTED_AT };
    state.events = vec![Event::Killed { alone: true, killed }];
    let events: Vec<Row> = state.events.iter().map(|event| panel::event(&state, event)).collect();
    let minutes =
        (state.first_minute() - 1..=state.first_minute() + 1).map(|minute| panel::minute(&state, minute));
    let rows = panel::opening(&state).into_iter().chain(minutes).chain(events).chain(panel::panel(&state));
    assert_eq!(drawn(rows.collect()), include_str!("../../tests/golden/demo_panel_without.txt"));
}

/// The panel is redrawn in place: a wider row or a missing row would leave text behind.
#[test]
fn every_row_has_the_width_of_the_panel() {
    for without in [None, Some(AfterRefusal::AtOnce), Some(AfterRefusal::RetryAfter)] {
        let mut most = state(2_000, without);
        (most.plan.jobs, most.plan.workers, most.quota.minute) = (2_000, 64, Span::from_secs(60));
        let quota = most.quota.clone();
        call(&mut most.tollway, &quota, &[4_000]);
        most.alone.iter_mut().for_each(|alone| {
            call(&mut alone.side, &quota, &[4_000]);
            alone.progress.failed = 2_000;
        });
        most.stages = [StageView { done: 2_000, ready: 2_000, running: 64, dead: 999 }; 2];
        let killed = Killed { worker: u32::MAX, document: 2_000, at: STARTED_AT };
        most.events = vec![
            Event::Lowered { limit: 1_000, from: most.first_minute() + 999 },
            Event::Restored { limit: 2_000 },
            Event::Killed { alone: true, killed },
            Event::Redriven(Redriven { jobs: 2_000, error: "x".repeat(1_000) }),
        ];
        assert_eq!(panel::panel(&state(1, without)).len(), panel::panel(&most).len());
        let events = most.events.iter().map(|event| panel::event(&most, event));
        let minute = panel::minute(&most, most.first_minute() - 1);
        let rows = panel::panel(&most).into_iter().chain(panel::panel(&state(1, without)));
        for row in rows.chain(panel::opening(&most)).chain(events).chain([minute]) {
            let text = row.into_wide_text();
            assert_eq!(strip_str(&text).to_string().chars().count(), WIDTH, "{text}");
        }
    }
}

#[test]
fn limit_of_each_minute_follows_the_changes() {
    let mut quota = Quota::new(200, Span::from_secs(5));
    quota.change(7, quota.lowered());
    quota.change(9, 200);
    assert_eq!([6, 7, 8, 9, 10].map(|minute| quota.limit_in(minute)), [200, 100, 100, 200, 200]);
}

/// Workers could make about twice the allowed calls, for all settings.
#[test]
fn vendor_is_fast_enough_for_its_limit() {
    for (limit, workers, minute) in [(200, 8, 5), (1, 2, 5), (2_000, 2, 5), (2_000, 64, 60), (1, 64, 60)] {
        let quota = Quota::new(limit, Span::from_secs(minute));
        let calls_of_one = Span::from(quota.latency(workers)).times(limit).as_micros() / workers;
        assert!(calls_of_one <= quota.minute.as_micros() / 2, "{limit} {workers} {minute}");
        assert!(quota.latency(workers) <= std::time::Duration::from(quota.edge()));
    }
}
