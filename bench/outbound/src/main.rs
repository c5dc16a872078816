//! How well controllers find a vendor's limit: simulated vendors in virtual time, seeded.
//!
//!     cargo run --release -p tollway-outbound-bench -- [--seeds] [--only NAME] [--from SEED]
//!     cargo run --release -p tollway-outbound-bench -- --random N [--from SEED] [--odd | --even] [--best]
//!     cargo run --release -p tollway-outbound-bench -- --short-runs N [--from SEED] [--odd | --even] [--seeds]
//!     cargo run --release -p tollway-outbound-bench -- --raised
//!
//! `--seeds` prints every seed, `--only` one controller, `--from` takes other seeds. `--random` measures N random vendors;
//! `--best` adds the share that the best fixed pace would get, and ours in percent of that, which takes longer. `--short-runs`
//! calls N vendors of documented kinds for 200 seconds and prints the worst with the reason.
#![allow(clippy::print_stdout)]

mod limiters;
mod raised;
mod rivals;
mod short_runs;
mod vendors;

use limiters::Limiter;
use tollway_vendor::{Voice, possible};
use vendors::Scenario;

/// Seeds of each cell of the table.
const SEEDS: u64 = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let after = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let first: u64 = after("--from").and_then(|first| first.parse().ok()).unwrap_or(1);
    let count = |name: &str| after(name).and_then(|count| count.parse::<u64>().ok());
    let seeds = |count: u64| {
        let (odd, even) = (has("--odd"), has("--even"));
        let seeds = first..=first + count.max(1) - 1;
        seeds.filter(move |seed| (!odd || seed % 2 == 1) && (!even || seed % 2 == 0))
    };
    match (count("--random"), count("--short-runs")) {
        (Some(count), _) => random_vendors(seeds(count), has("--best")),
        (None, Some(count)) => short_runs::print(seeds(count), has("--seeds")),
        (None, None) if has("--raised") => raised::print(),
        (None, None) => {
            let choice =
                Choice { first, every_seed: has("--seeds"), only: after("--only").map(String::as_str) };
            table(&choice);
        }
    }
}

/// What the table shows: the first of its seeds, every seed or only means, one controller or all.
struct Choice<'a> {
    first: u64,
    every_seed: bool,
    only: Option<&'a str>,
}

/// One run of one seed.
struct Row {
    share: f64,
    refusals: f64,
    refused: u64,
    converged: Option<usize>,
}

fn measure(scenario: &Scenario, limiter: Limiter, seed: u64, workers: usize, shared: bool) -> Row {
    let mut run = scenario.run(seed, workers, shared);
    let perfect = possible(&scenario.terms, &run);
    let figures = limiter.run(&scenario.terms, &mut run);
    let (accepted, refused) = (figures.accepted(), figures.refused());
    Row {
        share: 100.0 * accepted as f64 / perfect.max(1) as f64,
        refusals: 1_000.0 * refused as f64 / accepted.max(1) as f64,
        refused,
        converged: figures.converged(&scenario.terms),
    }
}

fn table(choice: &Choice<'_>) {
    println!(
        "share of a perfect client's calls / refusals per 1,000 accepted / seconds to converge; mean of {SEEDS} seeds"
    );
    println!("AIMD as documented and AWS's cubic rule are our own short re-implementations.");
    println!("8 shared: eight workers with one controller; 8 apart: each worker has its own.");
    let four = [vendors::a(), vendors::b(), vendors::d1(), vendors::d2()];
    let auto = &[Limiter::Auto][..];
    let voices = [
        ("told waits", Voice::Waits, &Limiter::ADAPTIVE[..]),
        ("headers", Voice::Headers, auto),
        ("bare 429s", Voice::Bare, auto),
    ];
    for (title, voice, limiters) in voices {
        println!("\n{title}");
        for scenario in &four {
            print_rows(&scenario.saying(voice), limiters, choice);
        }
    }
    println!("\nc, bodies that name the quota; two days; refusals in all, not per 1,000");
    print_rows(&vendors::c(), &Limiter::ADAPTIVE, choice);
    print_rows(&vendors::c(), &[Limiter::Profile], choice);
    println!("\nc, told waits");
    print_rows(&vendors::c().saying(Voice::Waits), auto, choice);
}

fn print_rows(scenario: &Scenario, limiters: &[Limiter], choice: &Choice<'_>) {
    let seeds = choice.first..choice.first + SEEDS;
    for limiter in
        limiters.iter().filter(|limiter| choice.only.is_none_or(|only| limiter.name().contains(only)))
    {
        for (workers, shared, label) in [(1, true, "1"), (8, true, "8 shared"), (8, false, "8 apart")] {
            let rows: Vec<Row> =
                seeds.clone().map(|seed| measure(scenario, *limiter, seed, workers, shared)).collect();
            let mean = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).sum::<f64>() / rows.len() as f64;
            let daily = scenario.tokens.1 > 0;
            let refusals = |row: &Row| if daily { row.refused as f64 } else { row.refusals };
            let converged =
                rows.iter().map(|row| row.converged.map(|second| second as u64)).sum::<Option<u64>>();
            let converged = converged.map_or("never".into(), |sum| (sum / SEEDS).to_string());
            println!(
                "  {:34} {:16} {label:9} {:6.1} / {:7.1} / {converged}",
                scenario.name,
                limiter.name(),
                mean(&|row| row.share),
                mean(&refusals)
            );
            if choice.every_seed {
                let seeds = rows.iter().map(|row| format!("{:.1}/{:.1}", row.share, refusals(row)));
                println!("{:40}{}", "", seeds.collect::<Vec<_>>().join("  "));
            }
        }
    }
}

fn random_vendors(seeds: impl Iterator<Item = u64>, best: bool) {
    let scenarios: Vec<(u64, Scenario)> = seeds.map(|seed| (seed, vendors::random(seed))).collect();
    for (title, voice) in [("told waits", Voice::Waits), ("bare 429s", Voice::Bare)] {
        let more = if best { " / share of the best fixed pace / ours in percent of it" } else { "" };
        println!("{title}: share / refusals per 1,000{more}");
        let (mut shares, mut refusals, mut of_best) = (Vec::new(), Vec::new(), Vec::new());
        for (seed, scenario) in &scenarios {
            let scenario = scenario.saying(voice);
            let row = measure(&scenario, Limiter::Auto, *seed, 1, true);
            print!("  {seed:3} {:80} {:6.1} / {:7.1}", scenario.name, row.share, row.refusals);
            if best {
                let pace = best_share(&scenario, *seed);
                // More than all of it is taken from other clients on the key.
                let ratio = 100.0 * row.share / pace.clamp(1.0, 100.0);
                print!(" / {pace:6.1} / {ratio:6.1}");
                of_best.push(ratio);
            }
            println!();
            shares.push(row.share);
            refusals.push(row.refusals);
        }
        let lowest = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
        print!(
            "  median {:.1} / {:.1}; lowest share {:.1}",
            median(&shares),
            median(&refusals),
            lowest(&shares)
        );
        if best {
            print!(
                "; of the best fixed pace: median {:.1}, lowest {:.1}",
                median(&of_best),
                lowest(&of_best)
            );
        }
        println!("\n");
    }
}

/// The share in percent that the best fixed pace gets.
fn best_share(scenario: &Scenario, seed: u64) -> f64 {
    let run = scenario.run(seed, 1, true);
    let accepted = limiters::best_pace(&scenario.terms, &run) as f64;
    100.0 * accepted / possible(&scenario.terms, &run).max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
