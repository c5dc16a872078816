//! `tollway incidents` as a user runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::fs;

use serde_json::{Value, json};
use tollway::Limiter;

use crate::home::{Home, golden};

const CONFIG: &str = r#"
[store]
url = "file:state"

[policies.gemini]
limits = ["rpm: 5 requests / minute bucket", "tpm: 250k tokens / minute bucket"]

[policies.notion]
limits = ["3 requests / second paced"]
"#;

const SAID: &str = "429 RESOURCE_EXHAUSTED: You exceeded your current quota, please check your plan and billing \
                    details. \u{1b}[31mLearn more: https://ai.example/limits";

fn take(second: u64, subject: &str, tokens: u64) -> Value {
    let at = format!("2026-11-02T14:04:{second:02}.5Z");
    let permit = format!("{second:032x}");
    json!({ "granted_at": at, "due_at": at, "permit": permit, "subject": subject,
        "cost": { "requests": 1, "tokens": tokens } })
}

fn meter(name: &str, unit: &str, used: u64, amount: u64) -> Value {
    json!({ "name": name, "unit": unit, "amount": amount, "capacity": amount, "used": used,
        "remaining": amount - used, "resets_at": "2026-11-02T14:06:00Z", "as_of": "2026-11-02T14:05:00Z" })
}

/// A file as three processes may have left it: two incidents, half a line, and one more.
fn write_file(home: &Home) {
    // The order of keys is the file's: a line begins with the id.
    let line = |id: &str, rest: Value| format!("{{\"id\":\"{id}\",{}", &rest.to_string()[1..]);
    let first = line(
        "1f3c5a7090b1c2d3",
        json!({ "at": "2026-11-02T14:05:00.25Z", "policy": "gemini", "subject": "team-a", "said": SAID,
            "process": 4711, "in_flight": 2, "degraded": false, "of_a_newer_version": true,
            "limits": [meter("rpm", "requests", 3, 5), meter("tpm", "tokens", 5_850, 250_000)],
            "recent": [take(1, "team-a", 100), take(58, "team-b", 2_000), take(59, "team-a", 3_750)] }),
    );
    let second = line(
        "1f99000000000000",
        json!({ "at": "2026-11-02T14:05:01Z", "policy": "notion", "subject": "", "said": "", "process": 4712,
            "in_flight": 1, "degraded": true, "limits": [], "recent": [] }),
    );
    let third = line(
        "ab00000000000000",
        json!({ "at": "2026-11-02T14:04:00Z", "policy": "gemini", "subject": "x".repeat(120),
            "said": "429 ".repeat(100), "process": 4711, "in_flight": 1_234, "degraded": false,
            "limits": [meter("rpm", "requests", 5, 5)], "recent": [] }),
    );
    let torn = &first[..200];
    home.write("state.incidents", format!("{first}\n{second}\n{torn}\n{third}\n{torn}"));
}

/// How long ago it was changes from day to day.
fn without_age(text: &str) -> String {
    let (before, after) = text.split_once("UTC, ").unwrap();
    format!("{before}UTC, AGE{}", &after[after.find(" ago").unwrap()..])
}

/// G11: readable, in 80 columns, the newest last, and a torn line is skipped.
#[test]
fn list_is_readable() {
    let home = Home::with_config(CONFIG);
    write_file(&home);
    let (exit, answer, beside) = home.run(&["incidents"]);
    golden("incidents.txt", &answer);
    assert_eq!((exit, beside.as_str()), (0, ""));
    assert!(answer.lines().all(|line| line.chars().count() <= 80), "{answer}");
    assert!(!answer.contains('\u{1b}'), "a vendor must not reach the terminal");
}

/// G11: time, meters, calls in flight and the last takes.
#[test]
fn show_has_all_the_evidence() {
    let home = Home::with_config(CONFIG);
    write_file(&home);
    let (exit, answer, _) = home.run(&["incidents", "show", "1f3c"]);
    golden("incidents_show.txt", &without_age(&answer));
    assert_eq!(exit, 0);
    assert!(answer.contains("Mon 2026-11-02 14:05:00 UTC"), "{answer}");
    assert!(answer.lines().all(|line| line.chars().count() <= 80), "{answer}");
    let (_, degraded, _) = home.run(&["incidents", "show", "1f99"]);
    golden("incidents_show_degraded.txt", &without_age(&degraded));
}

#[test]
fn ids_that_are_unknown_or_ambiguous_are_errors() {
    let home = Home::with_config(CONFIG);
    write_file(&home);
    let (exit, _, beside) = home.run(&["incidents", "show", "1f"]);
    assert_eq!(exit, 2);
    assert!(beside.contains("several incidents begin with"), "{beside}");
    let (exit, _, beside) = home.run(&["incidents", "show", "77"]);
    assert_eq!(exit, 66);
    assert!(beside.contains("there is no incident \"77\""), "{beside}");
}

fn listed(home: &Home, options: &[&str]) -> Vec<String> {
    let (exit, answer, beside) = home.run(&[&["incidents", "--json"], options].concat());
    assert_eq!(exit, 0, "{beside}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let incidents = answer["incidents"].as_array().unwrap();
    incidents.iter().map(|incident| incident["id"].as_str().unwrap()[..4].to_owned()).collect()
}

#[test]
fn options_choose_incidents() {
    let home = Home::with_config(CONFIG);
    write_file(&home);
    assert_eq!(listed(&home, &[]), ["ab00", "1f3c", "1f99"]);
    assert_eq!(listed(&home, &["--policy", "gemini"]), ["ab00", "1f3c"]);
    assert_eq!(listed(&home, &["--limit", "1"]), ["1f99"]);
    assert!(listed(&home, &["--since", "1s"]).is_empty());
    let (_, _, beside) = home.run(&["incidents", "--limit", "1"]);
    assert!(beside.contains("1 of 3 incidents"), "{beside}");
    assert_eq!(home.run(&["incidents", "--since", "soon"]).0, 2);
}

#[test]
fn no_file_is_no_incidents_and_off_is_an_error() {
    let home = Home::with_config(CONFIG);
    assert_eq!(home.run(&["incidents"]), (0, "no incidents\n".to_owned(), String::new()));
    assert_eq!(Home::new().run(&["incidents"]).0, 0, "without a config");
    let home = Home::with_config("incidents.file = 'off'");
    let (exit, _, beside) = home.run(&["incidents"]);
    assert_eq!(exit, 78);
    assert!(beside.contains("file = \"off\""), "{beside}");
    fs::create_dir(home.path().join("folder")).unwrap();
    home.write("tollway.toml", "incidents.file = 'folder'");
    let (exit, _, beside) = home.run(&["incidents"]);
    assert_eq!(exit, 1);
    assert!(beside.contains("cannot read the incidents"), "{beside}");
}

/// G11: what a program notes, the command lists, after the program has ended.
#[test]
fn incidents_of_a_program_are_listed_after_its_end() {
    let home = Home::with_config(CONFIG);
    let limiter = Limiter::from_config_blocking(home.path().join("tollway.toml")).unwrap();
    let permit = limiter.take("gemini").subject("team-a").wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let noted = runtime.block_on(permit.refused_by_vendor("429")).remove(0);
    drop((permit, limiter));
    assert_eq!(listed(&home, &["--since", "1h"]), [noted.id[..4].to_owned()]);
    let (exit, answer, _) = home.run(&["incidents", "show", &noted.id, "--json"]);
    assert_eq!(exit, 0);
    let shown: tollway::incident::Incident = serde_json::from_str(&answer).unwrap();
    assert_eq!(shown, noted);
}

/// A server whose webhook has no secret says so at its start.
#[cfg(feature = "webhook")]
#[test]
fn missing_secret_of_a_webhook_stops_the_server() {
    let incidents = "[incidents]\nwebhook = 'https://a.example/hidden'\nsecret = { env = 'NOT_SET_HERE' }\n";
    let home = Home::with_config(&format!("{CONFIG}{incidents}"));
    let (exit, _, beside) = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(exit, 78);
    assert!(beside.contains("NOT_SET_HERE, which is not set") && !beside.contains("hidden"), "{beside}");
}
