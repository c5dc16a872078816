//! `tests/golden/VENDOR.txt`: responses, each with the observation that is expected of it.
//!
//! ```text
//! # A comment.
//! dialect: NAME [NAME...]
//!
//! === grant | refusal | trap: what it is about
//! HTTP STATUS
//! header: value
//!
//! body
//! ---
//! detected: DIALECT
//! refusal: KIND
//! reason: TEXT
//! wait: SECONDSs
//! quota: UNIT name= limit= window= remaining= window-ends= full-in=
//! ```
//!
//! A line of the expectation that is missing says that there is no such thing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tollway_dialects::{Dialect, Observation, QuotaReset, VendorResponse};

struct Case {
    title: String,
    status: StatusCode,
    headers: HeaderMap,
    body: String,
    expected: String,
}

struct GoldenFile {
    file: String,
    dialects: Vec<&'static Dialect>,
    names: Vec<String>,
    cases: Vec<Case>,
}

fn golden_files() -> Vec<GoldenFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| golden_file(&path)).collect()
}

fn golden_file(path: &Path) -> GoldenFile {
    let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let (head, cases) = text.split_once("\n=== ").unwrap();
    let names = head.lines().find_map(|line| line.strip_prefix("dialect: ")).unwrap();
    let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
    let dialects = names.iter().map(|name| Dialect::by_name(name).unwrap()).collect();
    GoldenFile { cases: cases.split("\n=== ").map(case).collect(), file, dialects, names }
}

fn case(text: &str) -> Case {
    let (title, text) = text.split_once('\n').unwrap();
    let (response, expected) = text.split_once("\n---\n").unwrap();
    let (head, body) = response.split_once("\n\n").unwrap_or((response, ""));
    let mut lines = head.lines();
    let status = lines.next().unwrap().strip_prefix("HTTP ").unwrap().parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    let expected = expected.trim().to_owned();
    Case { title: title.to_owned(), status, headers, body: body.to_owned(), expected }
}

fn described(detected: &Dialect, observation: &Observation) -> String {
    let mut text = format!("detected: {}", detected.name());
    if let Some(refusal) = observation.refusal {
        write!(text, "\nrefusal: {refusal}").unwrap();
    }
    if let Some(reason) = &observation.reason {
        write!(text, "\nreason: {reason}").unwrap();
    }
    if let Some(wait) = observation.wait {
        write!(text, "\nwait: {}", seconds(wait)).unwrap();
    }
    for quota in &observation.quotas {
        write!(text, "\nquota: {}", quota.unit).unwrap();
        let mut say = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                write!(text, " {key}={value}").unwrap();
            }
        };
        say("name", quota.name.clone());
        say("limit", quota.limit.map(|limit| limit.to_string()));
        say("window", quota.window.map(seconds));
        say("remaining", quota.remaining.map(|remaining| remaining.to_string()));
        match quota.reset {
            None => {}
            Some(QuotaReset::WindowEnds(after)) => say("window-ends", Some(seconds(after))),
            Some(QuotaReset::BucketFull(after)) => say("full-in", Some(seconds(after))),
        }
    }
    text
}

fn seconds(length: Duration) -> String {
    let text = format!("{}.{:09}", length.as_secs(), length.subsec_nanos());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[test]
fn responses_are_observed_as_written() {
    let mut wrong = String::new();
    for golden in golden_files() {
        for case in &golden.cases {
            let response =
                VendorResponse { status: case.status, headers: &case.headers, body: case.body.as_bytes() };
            for dialect in &golden.dialects {
                let observed = described(Dialect::detect(&case.headers), &dialect.observe(&response));
                if observed != case.expected {
                    let (file, title, expected) = (&golden.file, &case.title, &case.expected);
                    write!(wrong, "\n{file}: {title}\n-- expected\n{expected}\n-- observed\n{observed}\n")
                        .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_name_has_a_grant_a_refusal_and_a_trap() {
    let mut names = BTreeSet::new();
    for golden in golden_files() {
        for kind in ["grant", "refusal", "trap"] {
            assert!(
                golden.cases.iter().any(|case| case.title.starts_with(kind)),
                "{}: no {kind}",
                golden.file
            );
        }
        assert!(golden.names.contains(&golden.file), "{} is named for another dialect", golden.file);
        names.extend(golden.names);
    }
    assert_eq!(names, Dialect::names().map(str::to_owned).collect());
}

#[test]
fn names_are_unique() {
    let names: Vec<_> = Dialect::names().collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(Dialect::by_name("openai").map(Dialect::name), Some("openai"));
    assert_eq!(Dialect::by_name("unknown"), None);
}
