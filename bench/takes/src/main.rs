//! The cost of a take in memory, without rivals: built at two commits, compared by `scripts/compare-takes`.
//!
//! It uses only the public API of `tollway`, so that the same source builds before and after a change of internal types.
//! Without arguments it prints `ROW THREADS NANOSECONDS` for every row. `--takes ROW NUMBER` only takes, with a fixed clock,
//! for valgrind to count instructions and allocations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

mod rounds;
mod row;

use std::process::ExitCode;

use row::{ROWS, Row, Time};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => measure(),
        ["--rows"] => ROWS.iter().for_each(|row| println!("{}", row.name)),
        ["--takes", name, number] => {
            let row = ROWS.iter().find(|row| row.name == name).expect("a row that `--rows` prints");
            take_only(row, number.parse().expect("a number of takes"));
        }
        _ => {
            eprintln!("usage: tollway-takes [--rows | --takes ROW NUMBER]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn measure() {
    for row in &ROWS {
        for threads in [1, 2] {
            println!("{} {threads} {:.2}", row.name, rounds::measure(row, threads));
        }
    }
}

/// What valgrind measures. Every run creates the keys and ids of the longest run, so that their creation cancels out.
fn take_only(row: &Row, takes: usize) {
    let takers = row.takers(1, rounds::TAKES, Time::Fixed);
    for mut taker in takers {
        taker.take(takes);
    }
}
