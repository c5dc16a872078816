//! Random vendors of the kinds that are documented, called for 200 seconds: what counts is the second half.

use std::cell::Cell;

use tollway_core::controller::{Auto, Controller, Pace, Report};
use tollway_core::{Span, Timestamp};
use tollway_vendor::{Client, RandomVendor, Run, run};

/// A run, in seconds.
const SECONDS: u64 = 200;

/// The vendors with the lowest share or the most refusals are printed with their reason.
const WORST: usize = 5;

/// So few refusals in a half are no series.
const REFUSED_MIN: u64 = 3;

/// Calls in flight: enough for 100 a second that take 0.6 s.
const IN_FLIGHT: usize = 64;

/// What a vendor gave in the second half of its run.
struct Row {
    seed: u64,
    vendor: RandomVendor,
    /// Of what the vendor would have allowed, in percent.
    share: f64,
    /// Of 1,000 accepted calls.
    refusals: f64,
    refused: u64,
    reason: String,
}

/// Where the time of the second half went.
#[derive(Clone, Copy, Default)]
struct Spent {
    held: f64,
    at_cap: f64,
    /// The pace's rate over time.
    calls: f64,
}

/// Runs the vendors and prints the figures, with each vendor if `every` says so.
pub(crate) fn print(seeds: impl Iterator<Item = u64>, every: bool) {
    let rows: Vec<Row> = seeds.map(measure).collect();
    if every {
        rows.iter().for_each(print_row);
    }
    let truthful = || rows.iter().filter(|row| row.vendor.tells_the_truth());
    let mut shares: Vec<f64> = rows.iter().map(|row| row.share).collect();
    let mut refusals: Vec<f64> = rows.iter().map(|row| row.refusals).collect();
    shares.sort_by(f64::total_cmp);
    refusals.sort_by(f64::total_cmp);
    let at =
        |values: &[f64], percent: usize| values.get(values.len() * percent / 100).copied().unwrap_or(0.0);
    println!("{} vendors, {} of them with headers that mislead", rows.len(), rows.len() - truthful().count());
    println!(
        "share of what the vendor would have allowed: median {:.1} %, one in ten below {:.1} %",
        at(&shares, 50),
        at(&shares, 10)
    );
    println!("refusals of 1,000: median {:.1}, one in ten above {:.1}", at(&refusals, 50), at(&refusals, 90));
    let lowest = truthful().map(|row| row.share).fold(f64::MAX, f64::min);
    // One refusal of a slow vendor is more than 30 of 1,000.
    let most = truthful().filter(|row| row.refused > REFUSED_MIN).map(|row| row.refusals).fold(0.0, f64::max);
    println!(
        "of those that tell the truth: lowest share {lowest:.1} %, most refusals {most:.1} (more than {REFUSED_MIN} in all)"
    );
    let mut worst: Vec<&Row> = rows.iter().collect();
    println!("the lowest shares:");
    worst.sort_by(|a, b| a.share.total_cmp(&b.share));
    worst.iter().take(WORST).for_each(|row| print_row(row));
    println!("the most refusals:");
    worst.sort_by(|a, b| b.refusals.total_cmp(&a.refusals));
    worst.iter().take(WORST).for_each(|row| print_row(row));
}

fn print_row(row: &Row) {
    println!(
        "  {:4} {:95} {:6.1} % / {:6.1}  {}",
        row.seed, row.vendor.name, row.share, row.refusals, row.reason
    );
}

fn measure(seed: u64) -> Row {
    let vendor = RandomVendor::of_seed(seed);
    let length = Span::from_secs(SECONDS);
    let how = Run { seed, length, workers: 1, shared: true, in_flight: IN_FLIGHT, client: Client::default() };
    let spent = Cell::new(Spent::default());
    let figures = run(&vendor.terms, &how, || watched(&spent));
    let (accepted, refused) = figures.between(SECONDS as usize / 2, SECONDS as usize);
    let half = SECONDS as f64 / 2.0;
    let rate = vendor.terms.calls_rate(Timestamp::from_secs(SECONDS)).unwrap_or(0) as f64 / 1e6;
    let Spent { held, at_cap, calls } = spent.get();
    let pace = 100.0 * calls / (rate * (half - held - at_cap).max(1.0));
    let reason = format!(
        "held {held:.0} s, at a cap {at_cap:.0} s, else the pace was {pace:.0} % of the limit; {refused} refused"
    );
    let share = 100.0 * accepted as f64 / (rate * half);
    Row { seed, vendor, share, refusals: 1_000.0 * refused as f64 / accepted.max(1) as f64, refused, reason }
}

/// The controller, and a watch on where its time goes.
fn watched(spent: &Cell<Spent>) -> (Pace, impl FnMut(&Report<'_>) -> Pace) {
    let mut controller = Controller::Auto(Box::<Auto>::default());
    let first = controller.pace(Timestamp::EPOCH);
    let (mut before, mut pace) = (Timestamp::from_secs(SECONDS / 2), first);
    let next = move |report: &Report<'_>| {
        let passed = report.now.since(before);
        if passed > Span::ZERO {
            let seconds = |span: Span| span.as_micros() as f64 / 1e6;
            let mut sum = spent.get();
            let held = passed.min(pace.hold);
            let capped = pace.cap.is_some_and(|cap| cap.grants == 0);
            sum.held += seconds(held);
            let rest = seconds(passed) - seconds(held);
            if capped {
                sum.at_cap += rest;
            } else {
                sum.calls += rest * pace.rate as f64 / 1e6;
            }
            spent.set(sum);
        }
        before = before.max(report.now);
        pace = controller.report(report);
        pace
    };
    (first, next)
}
