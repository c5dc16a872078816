//! Runs every call that the example prints.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The running example, stopped when dropped.
struct Bank(Child);

impl Drop for Bank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bank {
    /// Starts the example on a free port. Returns its output up to `ready`.
    fn start() -> (Self, Vec<String>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bank-api"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.take_while(|line| line != "ready").collect();
        (Self(child), said)
    }
}

/// C4, C5: every header and message, by the printed calls.
#[test]
fn every_printed_call_gets_the_printed_response() {
    let (_bank, said) = Bank::start();
    let (mut calls, mut promises, mut answer) = (0, 0, String::new());
    for line in &said {
        if line.starts_with("curl ") {
            let output = Command::new("sh").args(["-c", line]).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}; is curl installed?");
            answer = String::from_utf8(output.stdout).unwrap();
            calls += 1;
        } else if let Some(promise) = line.strip_prefix("#   ") {
            assert!(answer.contains(promise), "{promise:?} is not in the answer:\n{answer}");
            promises += 1;
        }
    }
    assert!(
        calls == 13 && promises > 2 * calls,
        "{calls} calls with {promises} promises:\n{}",
        said.join("\n")
    );
    assert_eq!(said.iter().filter(|line| line.contains("requests per ")).count(), 7);
}

/// The README shows the printed calls, except for the port.
#[test]
fn readme_has_the_same_calls() {
    let (_bank, said) = Bank::start();
    let url = said[0].strip_prefix("a bank's API at ").unwrap().split(';').next().unwrap();
    let readme = include_str!("../README.md");
    for line in said.iter().filter(|line| line.starts_with("curl ")) {
        let line = line.replace(url, "http://127.0.0.1:3000");
        assert!(readme.contains(&line), "the README lacks: {line}");
    }
}
