//! Prints what leases and fallback do for 10,000 nodes that share one limit:
//! `cargo run --release -p tollway-fleet --example ten-thousand-nodes -- --seed 1`
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it prints a table, or says why not")]

use std::process::ExitCode;

use tollway_fleet::{Report, Scenario, WINDOW_SECONDS, all, run, table};

fn main() -> ExitCode {
    let Some((seed, nodes)) = arguments() else {
        println!("usage: ten-thousand-nodes [--seed NUMBER] [--nodes NUMBER]");
        return ExitCode::from(2);
    };
    let reports: Vec<Report> = all(nodes).into_iter().map(|scenario| simulated(scenario, seed)).collect();
    let limit = reports[0].scenario.limit();
    println!(
        "{nodes} nodes, each asks once a second; limit: {limit} requests / {WINDOW_SECONDS} seconds; seed {seed}\n"
    );
    print!("{}", table(&reports));
    println!("\nused, worst, leased, stranded: of the limit; failed, local: of the takes; over: units");
    let exact = reports.iter().all(|report| report.over == 0 || !report.scenario.is_exact());
    if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulated(scenario: Scenario, seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of this thread").block_on(run(scenario, seed))
}

/// The seed and the number of nodes. None if something else is asked for.
fn arguments() -> Option<(u64, usize)> {
    let (mut seed, mut nodes) = (1, 10_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let number = arguments.next()?;
        match argument.as_str() {
            "--seed" => seed = number.parse().ok()?,
            "--nodes" => nodes = number.parse().ok().filter(|nodes| *nodes >= 100)?,
            _ => return None,
        }
    }
    Some((seed, nodes))
}
