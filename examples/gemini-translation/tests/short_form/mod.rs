//! The example with ten texts, and what its report must say.

use std::process::Command;

/// The limits of the example.
const REQUESTS_A_MINUTE: u64 = 5;
const TOKENS_A_MINUTE: u64 = 250_000;
const REQUESTS_A_DAY: u64 = 25;

/// Runs the example, with a minute of four seconds. What it prints.
pub(crate) fn report(arguments: &[&str]) -> String {
    let mut example = Command::new(env!("CARGO_BIN_EXE_gemini-translation"));
    let output = example.args(arguments).args(["--texts", "10", "--minute", "4"]).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    report
}

/// The numbers of a line.
fn numbers_of(line: &str) -> Vec<u64> {
    let line = line.replace(',', "");
    line.split(|sign: char| !sign.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The numbers in the first line that begins like this.
fn numbers(report: &str, begins: &str) -> Vec<u64> {
    let line = report
        .lines()
        .find(|line| line.starts_with(begins))
        .unwrap_or_else(|| panic!("no {begins}: {report}"));
    numbers_of(line)
}

pub(crate) fn check(report: &str) {
    assert_eq!(numbers(report, "texts ")[..2], [10, 8], "{report}");
    let calls = numbers(report, "calls ");
    // The killed process may have called, and its text was translated again.
    assert!((10..=11).contains(&calls[0]) && calls[1] == 0, "{report}");
    let tokens = numbers(report, "tokens ");
    assert!(tokens[1] > 10 * 20_000 && tokens[0] > tokens[1] + 10 * 400, "{report}");
    assert!(report.contains(" is killed; text ") && report.contains(" was killed with text "), "{report}");
    check_quota(report, calls[0]);
}

/// The vendor counted every accepted call in a minute and in a day, and no limit is exceeded.
fn check_quota(report: &str, accepted: u64) {
    let lines = report.lines().skip_while(|line| !line.starts_with("minute "));
    let minutes: Vec<Vec<u64>> = lines.skip(1).take_while(|line| !line.is_empty()).map(numbers_of).collect();
    for minute in &minutes {
        assert!(minute[1] <= REQUESTS_A_MINUTE && minute[3] <= TOKENS_A_MINUTE, "{report}");
    }
    assert_eq!(minutes.iter().map(|minute| minute[1]).sum::<u64>(), accepted, "{report}");
    let days: Vec<u64> = numbers(report, "days ").into_iter().step_by(2).collect();
    assert!(days.iter().all(|requests| *requests <= REQUESTS_A_DAY), "{report}");
    assert_eq!(days.iter().sum::<u64>(), accepted, "{report}");
}
