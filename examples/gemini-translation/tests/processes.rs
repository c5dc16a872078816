//! Runs the example in a short form, with a file and with Redis as the store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;

use tollway_testkit::servers::RedisServer;

fn report(arguments: &[&str]) -> String {
    let mut example = Command::new(env!("CARGO_BIN_EXE_gemini-translation"));
    let output = example.args(arguments).args(["--texts", "10", "--minute", "4"]).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    report
}

/// The numbers in the first line that begins like this.
fn numbers(report: &str, begins: &str) -> Vec<u64> {
    let line = report
        .lines()
        .find(|line| line.starts_with(begins))
        .unwrap_or_else(|| panic!("no {begins}: {report}"));
    let line = line.replace(',', "");
    line.split(|sign: char| !sign.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn check(report: &str) {
    assert_eq!(numbers(report, "texts ")[..2], [10, 8], "{report}");
    let calls = numbers(report, "calls ");
    // The killed process may have called, and its text was translated again.
    assert!((10..=11).contains(&calls[0]) && calls[1] == 0, "{report}");
    let tokens = numbers(report, "tokens ");
    assert!(tokens[1] > 10 * 20_000 && tokens[0] > tokens[1] + 10 * 400, "{report}");
    assert!(report.contains(" is killed; text ") && report.contains(" was killed with text "), "{report}");
}

/// B3, D5: eight processes share requests, tokens and a day; none is refused, though one of them is killed.
#[test]
fn processes_share_one_account_over_a_file() {
    check(&report(&[]));
}

/// The same over Redis.
#[test]
fn processes_share_one_account_over_redis() {
    let redis = RedisServer::start();
    check(&report(&[&redis.url()]));
}
