//! `tollway doctor` as a user runs it: each finding is provoked, found, and gone after its fix.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test may fail")]

mod consumers;
#[cfg(feature = "aws")]
mod dynamodb;
mod other_processes;
#[cfg(feature = "postgres")]
mod postgres;
mod redis;
#[cfg(feature = "redis-tls")]
mod redis_tls;
mod report;

use crate::home::Home;
use serde_json::Value;

/// What a doctor says: its exit code, and its answer.
pub(crate) fn doctor(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let (exit, answer, beside) = home.run(&[&["doctor", "--json"], arguments].concat());
    let answer = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}{beside}"));
    (exit, answer)
}

/// The codes of what it finds, in their order; notes in parentheses. The exit code says whether there are others.
pub(crate) fn codes(home: &Home, arguments: &[&str]) -> Vec<String> {
    let (exit, answer) = doctor(home, arguments);
    let findings = answer["findings"].as_array().unwrap();
    let found = findings.iter().any(|finding| finding["level"] == "problem");
    assert_eq!(exit, i32::from(found), "{answer}");
    let code = |finding: &Value| {
        for part in ["what", "why", "fix"] {
            assert!(!finding[part].as_str().unwrap().is_empty(), "{finding}");
        }
        let code = finding["code"].as_str().unwrap();
        if finding["level"] == "note" { format!("({code})") } else { code.to_owned() }
    };
    findings.iter().map(code).collect()
}

/// A part of one finding.
pub(crate) fn told(home: &Home, arguments: &[&str], code: &str, part: &str) -> String {
    let answer = doctor(home, arguments).1;
    let mut findings = answer["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["code"] == code);
    finding.unwrap_or_else(|| panic!("no {code} in {answer}"))[part].as_str().unwrap().to_owned()
}

/// A config with a shared store and shared consumers.
pub(crate) fn config(store: &str, consumers: &str) -> String {
    format!("[store]\nurl = \"{store}\"\n\n[consumers]\nheader = \"x-consumer-id\"\n{consumers}\n")
}
