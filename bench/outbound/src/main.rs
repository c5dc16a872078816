//! How well controllers find a vendor's limit: simulated vendors in virtual time, seeded.
//!
//!     cargo run --release -p tollway-outbound-bench -- [--seeds] [--random N [--odd | --even]]
#![allow(clippy::print_stdout)]

mod limiters;
mod rivals;
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
    if let Some(name) = after("--trace") {
        let all = [vendors::a(), vendors::b(), vendors::d1(), vendors::d2(), vendors::c()];
        let voice = if has("--bare") { Voice::Bare } else if has("--headers") { Voice::Headers } else { Voice::Waits };
        let s = match name.parse() { Ok(n) => vendors::random(n), _ => all.into_iter().find(|s| s.name.starts_with(name.as_str())).unwrap() };
        let s = if name == "c" { s } else { s.saying(voice) };
        let seed = after("--seed").and_then(|s| s.parse().ok()).unwrap_or(1);
        let row = measure(&s, Limiter::Auto, seed, if has("--eight") { 8 } else { 1 }, true);
        if has("--best") { limiters::best_pace(&s.terms, &s.run(seed, 1, true)); }
        eprintln!("{} {:.1} / {:.1} ({})", s.name, row.share, row.refusals, row.refused);
        return;
    }
    match after("--random").and_then(|count| count.parse().ok()) {
        Some(count) => random_vendors(count, has("--odd"), has("--even"), has("--best")),
        None => table(has("--seeds"), after("--only").map(String::as_str)),
    }
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

fn table(every_seed: bool, only: Option<&str>) {
    println!("share of a perfect client's calls / refusals per 1,000 accepted / seconds to converge; mean of {SEEDS} seeds");
    println!("AIMD as documented and AWS's cubic rule are our own short re-implementations.\n");
    let four = [vendors::a(), vendors::b(), vendors::d1(), vendors::d2()];
    for (title, voice) in [("blind: told waits", Voice::Waits), ("headers", Voice::Headers), ("bare 429s", Voice::Bare)] {
        println!("{title}");
        for scenario in &four {
            let limiters = if voice == Voice::Waits { &Limiter::ALL[..] } else { &Limiter::ALL[..1] };
            print_rows(&scenario.saying(voice), limiters, every_seed, only);
        }
        println!();
    }
    println!("c: two days; refusals are counted, not per 1,000");
    print_rows(&vendors::c(), &Limiter::ALL, every_seed, only);
    print_rows(&vendors::c().saying(Voice::Waits), &Limiter::ALL[..1], every_seed, only);
}

fn print_rows(scenario: &Scenario, limiters: &[Limiter], every_seed: bool, only: Option<&str>) {
    for limiter in limiters.iter().filter(|limiter| only.is_none_or(|only| limiter.name().contains(only))) {
        for (workers, shared, label) in [(1, true, "1"), (8, true, "8 shared"), (8, false, "8 apart")] {
            let rows: Vec<Row> = (1..=SEEDS).map(|seed| measure(scenario, *limiter, seed, workers, shared)).collect();
            let mean = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).sum::<f64>() / rows.len() as f64;
            let daily = scenario.tokens.1 > 0;
            let refusals = |row: &Row| if daily { row.refused as f64 } else { row.refusals };
            let converged = rows.iter().map(|row| row.converged.map(|second| second as u64)).sum::<Option<u64>>();
            let converged = converged.map_or("never".into(), |sum| (sum / SEEDS).to_string());
            println!(
                "  {:34} {:16} {label:9} {:6.1} / {:7.1} / {converged}",
                scenario.name,
                limiter.name(),
                mean(&|row| row.share),
                mean(&refusals)
            );
            if every_seed {
                let seeds = rows.iter().map(|row| format!("{:.1}/{:.1}", row.share, refusals(row)));
                println!("{:40}{}", "", seeds.collect::<Vec<_>>().join("  "));
            }
        }
    }
}

fn random_vendors(count: u64, odd: bool, even: bool, best: bool) {
    let seeds = (1..=count).filter(|seed| (!odd || seed % 2 == 1) && (!even || seed % 2 == 0));
    let scenarios: Vec<(u64, Scenario)> = seeds.map(|seed| (seed, vendors::random(seed))).collect();
    for (title, voice) in [("told waits", Voice::Waits), ("bare 429s", Voice::Bare)] {
        println!("{title}: share / refusals per 1,000");
        let rows = scenarios.iter().map(|(seed, scenario)| {
            let row = measure(&scenario.saying(voice), Limiter::Auto, *seed, 1, true);
            let best = if best { limiters::best_pace(&scenario.saying(voice).terms, &scenario.run(*seed, 1, true)) } else { 0 };
            let best = 100.0 * best as f64 / possible(&scenario.terms, &scenario.run(*seed, 1, true)).max(1) as f64;
            println!("  {seed:3} {:80} {:6.1} / {:7.1}  {best:.1}", scenario.name, row.share, row.refusals);
            row
        });
        let rows: Vec<Row> = rows.collect();
        let median = |value: &dyn Fn(&Row) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let lowest = rows.iter().map(|row| row.share).fold(f64::MAX, f64::min);
        let (share, refusals) = (median(&|row| row.share), median(&|row| row.refusals));
        println!("  median {share:.1} / {refusals:.1}; lowest share {lowest:.1}\n");
    }
}
