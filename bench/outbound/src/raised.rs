//! How soon a raised limit is found: 10 calls in a window become 40 after a while.

use tollway_core::{Span, Timestamp};
use tollway_vendor::{Client, HeaderReset, HeaderStyle, Quota, Run, Shape, Terms, Voice};

use crate::limiters::Limiter;

/// Seeds of each cell: the time depends on when the last probe was.
const SEEDS: u64 = 5;

/// Prints the longest time to the new limit, with the refusals of 1,000 calls before it was raised.
pub(crate) fn print() {
    println!(
        "10 in a window become 40: seconds until 3 of 4 are used, the longest of {SEEDS} seeds / refusals of 1,000 before"
    );
    for seconds in [1, 2, 4, 10, 30, 60] {
        print!("  {seconds:3} s window");
        for (name, voice) in [("bare", Voice::Bare), ("waits", Voice::Waits), ("headers", Voice::Headers)] {
            let rows: Vec<(u64, f64)> = (1..=SEEDS).map(|seed| measure(seconds, voice, seed)).collect();
            let slowest = rows.iter().map(|row| row.0).max().unwrap_or(0);
            let refusals = rows.iter().map(|row| row.1).sum::<f64>() / SEEDS as f64;
            print!("   {name} {slowest:4} s / {refusals:4.1}");
        }
        println!();
    }
}

fn measure(seconds: u64, voice: Voice, seed: u64) -> (u64, f64) {
    let length = Span::from_secs(seconds);
    let window = |amount| Shape::Window { amount, length, phase: Span::from_millis(400) };
    // Somewhere between two probes.
    let raised = 30 * seconds.max(10) + 11 * seed;
    let end = raised + 900;
    let quota = Quota::calls(window(10)).then(Timestamp::from_secs(raised), window(40));
    let headers = HeaderStyle { reset: HeaderReset::WindowEnd, misleads: None };
    let terms = Terms { voice, headers, ..Terms::new(vec![quota]) };
    let mut run = Run {
        seed,
        length: Span::from_secs(end),
        workers: 1,
        shared: true,
        in_flight: 64,
        client: Client::default(),
    };
    let figures = Limiter::Auto.run(&terms, &mut run);
    let stretch = 2 * seconds.max(5);
    let found = (raised..end - stretch).find(|from| {
        let (accepted, _) = figures.between(*from as usize, (from + stretch) as usize);
        accepted * seconds >= 30 * stretch
    });
    let (accepted, refused) = figures.between(raised as usize / 3, raised as usize);
    (found.map_or(9_999, |at| at - raised), 1_000.0 * refused as f64 / accepted.max(1) as f64)
}
