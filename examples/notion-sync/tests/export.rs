//! Runs the example in a short form.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;

/// The numbers in the first line that begins like this.
fn numbers(report: &str, begins: &str) -> Vec<u64> {
    let line = report
        .lines()
        .find(|line| line.starts_with(begins))
        .unwrap_or_else(|| panic!("no {begins}: {report}"));
    line.split(|sign: char| !sign.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// D1, D2, D3: the whole workspace is exported although the vendor refuses calls, and three refusals in a row end with an
/// answer.
#[test]
fn workspace_is_exported_and_three_refusals_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut example = Command::new(env!("CARGO_BIN_EXE_notion-sync"));
    let output = example.arg(folder.path()).args(["--pages", "3", "--verbose"]).output().unwrap();
    let (report, log) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{report}{log}");
    assert_eq!(numbers(&report, "exported "), [7, 3, 9, 27], "{report}");
    // Users, databases, a list for each database, and each page.
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!((files, numbers(&report, "files ")[0]), (2 + 3 + 9, 14), "{report}");
    let page = std::fs::read_to_string(folder.path().join("risks-2.json")).unwrap();
    assert!(page.contains("Paragraph 2 of risks-2."), "{page}");
    // Two calls for users, one for databases, for each list and for each page.
    assert_eq!(numbers(&report, "calls ")[0], 2 + 1 + 3 + 9, "{report}");

    let (_, refusals) = report.split_once("three refusals").unwrap();
    let statuses: Vec<&str> =
        refusals.lines().filter_map(|line| line.split_once(" s  ").map(|(_, status)| status)).collect();
    assert_eq!(statuses, ["429", "429", "429", "200"], "{report}");
    assert!(refusals.contains("answered   200"), "{report}");
    for line in ["calls of an api are limited", "the rate of an api was increased", "backing off"] {
        assert!(log.contains(line), "{line} is not logged:\n{log}");
    }
}
