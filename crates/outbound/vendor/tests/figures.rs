//! The controllers against simulated vendors: figures as floors with some room. Virtual time, so every run is the same.

use std::cell::Cell;

use tollway_core::controller::{Auto, Controller, Pace, Report};
use tollway_core::{Span, Timestamp};
use tollway_vendor::{
    CallCost, Client, Figures, HeaderReset, HeaderStyle, Outcome, Quota, RandomVendor, Run, Shape, Terms,
    Unit, Vendor, Voice, possible, run,
};

fn bucket(per_second: u64, burst: u64) -> Shape {
    Shape::Bucket { rate: per_second * 1_000_000, burst }
}

fn window() -> Shape {
    Shape::Window { amount: 200, length: Span::from_mins(1), phase: Span::from_secs(17) }
}

fn twenty_minutes(workers: usize) -> Run {
    Run {
        seed: 3,
        length: Span::from_mins(20),
        workers,
        shared: true,
        in_flight: 16,
        client: Client::default(),
    }
}

fn auto() -> (Pace, impl FnMut(&Report<'_>) -> Pace) {
    let mut controller = Controller::Auto(Box::<Auto>::default());
    (controller.pace(Timestamp::EPOCH), move |report: &Report<'_>| controller.report(report))
}

/// Share of a perfect client in percent, and refusals per 1,000.
fn figures(terms: &Terms, how: &Run) -> (f64, f64, Figures) {
    let figures = run(terms, how, auto);
    let (accepted, refused) = (figures.accepted() as f64, figures.refused() as f64);
    (100.0 * accepted / possible(terms, how) as f64, 1_000.0 * refused / accepted, figures)
}

#[track_caller]
fn expect(terms: Terms, share: f64, refusals: f64) {
    for workers in [1, 8] {
        let (got, refused, _) = figures(&terms, &twenty_minutes(workers));
        assert!(got >= share, "{workers} workers got {got:.1} % of {terms:?}");
        assert!(refused <= refusals, "{workers} workers were refused {refused:.1} in 1,000 by {terms:?}");
    }
}

#[test]
fn told_waits() {
    expect(Terms::new(vec![Quota::calls(window())]), 94.0, 8.0);
    expect(Terms::new(vec![Quota::calls(bucket(3, 5))]), 97.0, 5.0);
    let half = Timestamp::from_secs(600);
    expect(Terms::new(vec![Quota::calls(bucket(10, 10)).then(half, bucket(4, 4))]), 95.0, 5.0);
    expect(Terms::new(vec![Quota::calls(bucket(4, 4)).then(half, bucket(10, 10))]), 88.0, 5.0);
}

#[test]
fn headers() {
    let half = Timestamp::from_secs(600);
    let quotas = [
        Quota::calls(window()),
        Quota::calls(bucket(3, 5)),
        Quota::calls(bucket(10, 10)).then(half, bucket(4, 4)),
        Quota::calls(bucket(4, 4)).then(half, bucket(10, 10)),
    ];
    for quota in quotas {
        expect(Terms { voice: Voice::Headers, ..Terms::new(vec![quota]) }, 98.5, 0.5);
    }
}

#[test]
fn bare_refusals() {
    expect(Terms { voice: Voice::Bare, ..Terms::new(vec![Quota::calls(window())]) }, 92.0, 13.0);
}

#[test]
fn named_quotas() {
    let minute = Shape::Window { amount: 5, length: Span::from_mins(1), phase: Span::from_secs(17) };
    let day = Shape::Window { amount: 25, length: Span::from_hours(24), phase: Span::from_hours(7) };
    let latency = (Span::from_secs(3), Span::from_secs(8));
    let quotas = vec![Quota::calls(minute), Quota::calls(day)];
    let terms = Terms { voice: Voice::Bodies, latency, ..Terms::new(quotas) };
    let how = Run { length: Span::from_hours(48), ..twenty_minutes(1) };
    let (share, _, figures) = figures(&terms, &how);
    assert!(share >= 97.0, "{share:.1} %");
    assert!(figures.refused() <= 16, "{} refusals in two days", figures.refused());
}

#[test]
fn three_bare_refusals_do_not_hang() {
    // Less than the lowest rate of the documented design, which never sends again.
    let slow = Shape::Bucket { rate: 200_000, burst: 1 };
    let terms = Terms { voice: Voice::Bare, ..Terms::new(vec![Quota::calls(slow)]) };
    let (share, _, figures) = figures(&terms, &twenty_minutes(1));
    assert!(share >= 60.0, "{share:.1} %");
    assert!(figures.longest_gap <= Span::from_mins(3), "{:?} without a call", figures.longest_gap);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let terms = Terms { others: 500_000, errors: 20, ..Terms::new(vec![Quota::calls(bucket(3, 5))]) };
    let counts = || {
        let figures = run(&terms, &twenty_minutes(8), auto);
        (figures.accepted(), figures.refused())
    };
    assert_eq!(counts(), counts());
}

#[test]
fn vendor_counts_and_tells() {
    let mut vendor = Vendor::new(
        Terms {
            voice: Voice::Headers,
            ..Terms::new(vec![Quota::calls(bucket(2, 2)), Quota::calls(window())])
        },
        1,
    );
    let now = Timestamp::from_secs(20);
    let first = vendor.decide(now, CallCost::default());
    assert_eq!(first.outcome, Outcome::Accepted);
    let shown: Vec<_> =
        first.quotas.iter().map(|quota| (quota.limit, quota.remaining, quota.reset)).collect();
    assert_eq!(shown, [(Some(2), 1, None), (Some(200), 199, Some(Span::from_secs(57)))]);
    assert_eq!(vendor.decide(now, CallCost::default()).outcome, Outcome::Accepted);
    let refused = vendor.decide(now, CallCost::default());
    assert_eq!((refused.outcome, refused.wait), (Outcome::Refused, Some(Span::from_secs(1))));
    let later = now.plus(Span::from_millis(500));
    assert_eq!(vendor.decide(later, CallCost::default()).outcome, Outcome::Accepted);
}

#[test]
fn refusals_that_count_keep_a_sliding_window_full() {
    let sliding = Shape::Sliding { amount: 2, length: Span::from_secs(10) };
    let terms = Terms { refusals_count: true, ..Terms::new(vec![Quota::calls(sliding)]) };
    let mut vendor = Vendor::new(terms, 1);
    let accepted = (0..60).filter(|second| {
        vendor.decide(Timestamp::from_secs(*second), CallCost::default()).outcome == Outcome::Accepted
    });
    assert_eq!(accepted.count(), 2);
}

#[test]
fn calls_at_the_same_time_are_bounded() {
    let mut vendor = Vendor::new(Terms { concurrent: Some(2), ..Terms::new(Vec::new()) }, 1);
    let now = Timestamp::from_secs(20);
    let mut rule = |finish: bool| {
        if finish {
            vendor.finish_call();
        }
        vendor.rule(now, CallCost::default())
    };
    assert_eq!([rule(false).outcome, rule(false).outcome], [Outcome::Accepted; 2]);
    let refused = rule(false);
    assert!(refused.is_concurrency());
    assert_eq!((refused.wait(), refused.concurrent), (Some(Span::from_secs(1)), Some((2, 0))));
    assert_eq!(rule(true).outcome, Outcome::Accepted);
    assert_eq!(rule(false).outcome, Outcome::Refused);
}

/// Answered calls make room for others, so far more than four are accepted.
#[test]
fn workers_reach_a_vendor_that_bounds_concurrency() {
    let terms = Terms { concurrent: Some(4), ..Terms::new(vec![Quota::calls(bucket(3, 5))]) };
    let (share, _, figures) = figures(&terms, &twenty_minutes(8));
    assert!(share >= 80.0, "{share:.1} % of {terms:?}, {} refused", figures.refused());
}

#[test]
fn other_clients_use_their_share() {
    // 20 a minute, of 60.
    let others = 333_333;
    let window = Shape::Window { amount: 60, length: Span::from_mins(1), phase: Span::ZERO };
    let accepted = |others| {
        let mut vendor = Vendor::new(Terms { others, ..Terms::new(vec![Quota::calls(window)]) }, 1);
        // Ten calls a second from the 30th second of each minute on, for ten minutes.
        let times = (0..600_u64).filter(|second| second % 60 >= 30);
        let times = times.flat_map(|second| (0..10).map(move |tenth| second * 10 + tenth));
        let times = times.map(|tenth| Timestamp::from_millis(tenth * 100));
        times.filter(|at| vendor.decide(*at, CallCost::default()).outcome == Outcome::Accepted).count()
    };
    assert_eq!(accepted(0), 600);
    let left = accepted(others);
    assert!((440..=560).contains(&left), "{left} of 600");
}

#[test]
fn ruling_shows_every_quota() {
    let day = Shape::Window { amount: 2, length: Span::from_days(1), phase: Span::ZERO };
    let quotas = vec![Quota::calls(bucket(1, 5)), Quota::tokens(bucket(100, 1_000)), Quota::calls(day)];
    let mut vendor = Vendor::new(Terms { refusals_count: true, ..Terms::new(quotas) }, 1);
    let now = Timestamp::from_secs(20);
    let first = vendor.rule(now, CallCost { tokens: 300 });
    let shown: Vec<_> = first.quotas.iter().map(|quota| (quota.left, quota.full_in, quota.wait)).collect();
    let until_midnight = Span::from_secs(86_400 - 20);
    assert_eq!(
        shown,
        [(4, Span::from_secs(1), None), (700, Span::from_secs(3), None), (1, until_midnight, None)]
    );
    let refused = vendor.rule(now, CallCost { tokens: 800 });
    assert_eq!(refused.refused_by().map(|quota| quota.unit), Some(Unit::Tokens));
    assert_eq!(refused.wait(), Some(Span::from_secs(1)));
    // The refusal was the second call of the day.
    let last = vendor.rule(now, CallCost::default());
    assert_eq!((last.refused_by().map(|quota| quota.shape), last.wait()), (Some(day), Some(until_midnight)));
}

#[test]
fn replaced_quotas_keep_what_was_used() {
    let mut vendor = Vendor::new(Terms::new(vec![Quota::calls(window())]), 1);
    let now = Timestamp::from_secs(20);
    vendor.rule(now, CallCost::default());
    let smaller = Shape::Window { amount: 100, length: Span::from_mins(1), phase: Span::from_secs(17) };
    vendor.set_quotas(vec![Quota::calls(smaller), Quota::tokens(bucket(1, 50))]);
    let left =
        |ruling: &tollway_vendor::Ruling| ruling.quotas.iter().map(|quota| quota.left).collect::<Vec<_>>();
    assert_eq!(left(&vendor.rule(now, CallCost { tokens: 20 })), [98, 30]);
    vendor.set_quotas(vec![Quota::tokens(bucket(1, 50))]);
    assert_eq!(left(&vendor.rule(now, CallCost::default())), [50], "another unit starts full");
}

/// Share of the limit and refusals per 1,000 in the second half of ten minutes.
fn second_half(terms: &Terms, workers: usize) -> (f64, f64) {
    let how = Run { length: Span::from_mins(10), in_flight: 64, ..twenty_minutes(workers) };
    let (accepted, refused) = run(terms, &how, auto).between(300, 600);
    let rate = terms.calls_rate(Timestamp::from_secs(600)).unwrap_or(0) as f64 / 1e6;
    (accepted as f64 / (rate * 3.0), 1_000.0 * refused as f64 / accepted.max(1) as f64)
}

/// A burst that is saved up at the start is no part of the rate.
#[test]
fn small_bursts_do_not_raise_the_measured_rate() {
    for voice in [Voice::Waits, Voice::Bare] {
        let terms = Terms { voice, ..Terms::new(vec![Quota::calls(bucket(5, 60))]) };
        let (share, refusals) = second_half(&terms, 1);
        assert!(share >= 95.0 && refusals <= 5.0, "{voice:?}: {share:.1} %, {refusals:.1} of 1,000");
    }
}

/// Ten of the random vendors of the bench (`--short-runs`), on seeds that no rule was made on.
#[test]
fn random_vendors_are_used_and_not_overrun() {
    for seed in (1_001..1_020).step_by(2) {
        let vendor = RandomVendor::of_seed(seed);
        let how = Run { seed, length: Span::from_secs(200), in_flight: 64, ..twenty_minutes(1) };
        let (accepted, refused) = run(&vendor.terms, &how, auto).between(100, 200);
        let rate = vendor.terms.calls_rate(Timestamp::from_secs(200)).unwrap_or(0) as f64 / 1e6;
        let (share, refusals) = (accepted as f64 / rate, 1_000.0 * refused as f64 / accepted.max(1) as f64);
        let name = &vendor.name;
        assert!(share >= 60.0 || !vendor.tells_the_truth(), "{name}: {share:.1} %");
        assert!(refusals <= 30.0 || refused <= 3, "{name}: {refusals:.1} of 1,000");
    }
}

/// Every call fails for ten minutes: as fast as at the start, and no faster.
#[test]
fn outage_is_not_climbed_into() {
    let terms = Terms { errors: 1_000, ..Terms::new(Vec::new()) };
    let how = Run { length: Span::from_mins(10), in_flight: 64, ..twenty_minutes(8) };
    let calls = Cell::new(0);
    run(&terms, &how, || {
        let ((pace, mut controller), calls) = (auto(), &calls);
        let counted = move |report: &Report<'_>| {
            calls.set(report.grants);
            controller(report)
        };
        (pace, counted)
    });
    assert!(calls.get() <= 3 * 600 + 10, "{} calls", calls.get());
}

/// Headers of whole seconds, the reset of one call, levels without a reset: none of them stops the client or misleads it.
#[test]
fn headers_are_evidence() {
    let second = Span::from_secs(1);
    let window = Shape::Window { amount: 32, length: second, phase: Span::from_millis(300) };
    let log = Shape::Sliding { amount: 60, length: Span::from_secs(30) };
    for (shape, reset) in [
        (window, HeaderReset::WindowEnd),
        (bucket(41, 3), HeaderReset::NextCall),
        (bucket(3, 2), HeaderReset::Full),
        (log, HeaderReset::NextCall),
        (log, HeaderReset::WindowEnd),
    ] {
        let headers = HeaderStyle { reset, misleads: None };
        // Three calls saved up do not make up for a way that varies by more.
        let latency = (Span::from_millis(200), Span::from_millis(220));
        let terms =
            Terms { voice: Voice::Headers, headers, latency, ..Terms::new(vec![Quota::calls(shape)]) };
        let (share, refusals) = second_half(&terms, 1);
        assert!(share >= 80.0 && refusals <= 15.0, "{shape:?} {reset:?}: {share:.1} %, {refusals:.1}");
    }
}

/// A quota of a day without a reset is used, not kept at half.
#[test]
fn quota_of_a_day_in_headers_is_used() {
    let day = Shape::Window { amount: 3_000, length: Span::from_hours(24), phase: Span::ZERO };
    let headers = HeaderStyle { reset: HeaderReset::Level, misleads: None };
    let terms = Terms { voice: Voice::Headers, headers, ..Terms::new(vec![Quota::calls(day)]) };
    let accepted = run(&terms, &twenty_minutes(1), auto).accepted();
    assert_eq!(accepted, 3_000);
}

/// After a hold of a minute for another limit than the one in headers, the rate comes back.
#[test]
fn rate_comes_back_after_a_second_limit() {
    let hour = Shape::Window { amount: 5_000, length: Span::from_hours(1), phase: Span::ZERO };
    let secondary = Shape::Window { amount: 90, length: Span::from_mins(1), phase: Span::from_secs(20) };
    let terms =
        Terms { voice: Voice::Headers, ..Terms::new(vec![Quota::calls(hour), Quota::calls(secondary)]) };
    let (share, refusals) = second_half(&Terms { voice: Voice::Waits, ..terms }, 1);
    assert!(share >= 85.0 && refusals <= 25.0, "{share:.1} %, {refusals:.1} of 1,000");
}

/// 10 in a window become 40. A refusal of such a window costs up to 10 s, so it is tried again after 150.
#[test]
fn raised_limit_is_found() {
    let raised = Timestamp::from_secs(300);
    for (voice, seconds, within) in [(Voice::Waits, 10, 200), (Voice::Bare, 10, 200), (Voice::Headers, 1, 15)]
    {
        let window = |amount| Shape::Window {
            amount,
            length: Span::from_secs(seconds),
            phase: Span::from_millis(400),
        };
        let quota = Quota::calls(window(10)).then(raised, window(40));
        let terms = Terms { voice, ..Terms::new(vec![quota]) };
        let how = Run { length: Span::from_mins(12), in_flight: 64, ..twenty_minutes(1) };
        let figures = run(&terms, &how, auto);
        let found = 300 + within;
        let (accepted, _) = figures.between(found, found + 50);
        assert!(accepted * seconds >= 30 * 50, "{voice:?}: {accepted} in 50 s");
    }
}
