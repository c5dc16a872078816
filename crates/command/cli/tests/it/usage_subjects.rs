//! `tollway usage` lists subjects: most used first, bounded, and those of policies that the config does not have.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tollway_testkit::servers::RedisServer;

use crate::home::Home;
use crate::serve::serving::Serving;

const CONFIG: &str = "\
[policies.adobe]
limits = [\"10 requests / day from first call\"]
[policies.gemini]
limits = [\"10 requests / day from first call\", \"1000 tokens / day from first call\"]
";

fn take(home: &Home, arguments: &[&str]) {
    let (exit, stdout, stderr) = home.run(&[&["take", "-q"], arguments].concat());
    assert_eq!(exit, 0, "{stdout}{stderr}");
}

fn usage(home: &Home, arguments: &[&str]) -> Value {
    let (exit, stdout, stderr) = home.run(&[&["usage", "--json"], arguments].concat());
    assert_eq!(exit, 0, "{stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn subjects(policy: &Value) -> Vec<&str> {
    policy["subjects"].as_array().unwrap().iter().map(|row| row["subject"].as_str().unwrap()).collect()
}

fn subjects_are_listed_at(store: &str) {
    let home = Home::with_config(&format!("store.url = {store:?}\n{CONFIG}"));
    for (subject, takes) in [("one", 1), ("three", 3), ("two", 2)] {
        (0..takes).for_each(|_| take(&home, &["adobe", "-s", subject]));
    }
    take(&home, &["adobe"]);
    take(&home, &["gemini", "-s", "tokens", "--cost", "tokens=900"]);
    take(&home, &["gemini", "-s", "calls", "--cost", "requests=5"]);
    take(&home, &["ci", "--limit", "5 / day from first call", "-s", "team-a"]);
    take(&home, &["ci", "--limit", "5 / day from first call"]);

    let all = usage(&home, &[]);
    let [adobe, gemini] = [&all["policies"][0], &all["policies"][1]];
    assert_eq!(subjects(adobe), ["three", "two", "one"]);
    assert_eq!(adobe["subjects"][0]["limits"][0]["used"], 3);
    assert_eq!(adobe["limits"][0]["used"], 1, "of calls without a subject");
    assert_eq!(subjects(gemini), ["tokens", "calls"], "by the limit that is used most");
    let ci = json!([{ "policy": "ci", "subjects": ["", "team-a"], "subjects_in_use": 2 }]);
    assert_eq!((&all["not_in_config"], &all["all_accounts_seen"]), (&ci, &json!(true)));

    let bounded = usage(&home, &["adobe", "--subjects", "2"]);
    assert_eq!(subjects(&bounded["policies"][0]), ["three", "two"]);
    assert_eq!(bounded["policies"][0]["subjects_in_use"], 3);
    assert_eq!(bounded["not_in_config"], Value::Null, "only this policy is listed");
    assert_eq!(usage(&home, &["--subjects", "0"])["policies"][0]["subjects"], Value::Null);
    assert_eq!(usage(&home, &["adobe", "-s", "one"])["policies"][0]["subjects"], Value::Null);

    let (_, text, _) = home.run(&["usage"]);
    let three = text.lines().position(|line| line.starts_with("    three   30%  3 of 10 requests")).unwrap();
    assert_eq!(text.lines().nth(three - 1), Some("  3 subjects with use, most used first"));
    assert!(text.contains("tokens   90%  900 of 1,000 tokens (tokens_per_day)"), "{text}");
    assert!(
        text.contains("not in the config") && text.contains("\n  ci\n    (no subject)\n    team-a\n"),
        "{text}"
    );
    assert!(text.contains("tollway usage ci --limit"), "{text}");
    let (_, text, _) = home.run(&["usage", "adobe", "--subjects", "2"]);
    assert!(text.contains("2 of 3 subjects with use"), "{text}");
}

#[test]
fn subjects_are_listed_from_a_file() {
    subjects_are_listed_at("file:state");
}

#[test]
fn subjects_are_listed_from_redis() {
    subjects_are_listed_at(&RedisServer::start().url());
}

/// The first thing that many people try: a take without a config, then `usage`.
#[test]
fn takes_with_a_limit_are_listed_without_a_config() {
    let home = Home::new();
    let (exit, _, stderr) = home.run(&["usage"]);
    assert!(exit == 78 && stderr.contains("there is no config file"), "{stderr}");
    take(&home, &["api", "--limit", "5 / day from first call"]);
    let (exit, text, stderr) = home.run(&["usage"]);
    assert!(exit == 0 && text.contains("  api\n    (no subject)\n"), "{text}{stderr}");
    let (_, text, _) = home.run(&["usage", "api", "--limit", "5 / day from first call"]);
    assert!(text.contains("1 of 5 requests"), "{text}");
}

/// A client chooses its subject: it must not control the terminal.
#[test]
fn control_codes_in_subjects_are_escaped() {
    let home = Home::with_config(CONFIG);
    let long = "x".repeat(200);
    take(&home, &["adobe", "-s", "a\u{1b}[31m\nb"]);
    take(&home, &["adobe", "-s", &long]);
    let (_, text, _) = home.run(&["usage", "adobe"]);
    assert!(text.contains("a\\u{1b}[31m\\nb") && !text.contains('\u{1b}'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// A server without a store counts in its memory; commands ask it.
#[test]
fn subjects_of_a_server_without_a_store_are_listed() {
    let home = Home::with_config("[policies.api]\nlimits = ['9 / day']\n[server]\nlisten = '127.0.0.1:0'");
    let serving = Serving::start(&home, &[]);
    let answer = serving.ask("decisions", "POST /v1/take", "", r#"{"policy":"api","subject":"ann"}"#);
    assert!(answer.contains("\"granted\":true"), "{answer}");
    assert_eq!(subjects(&usage(&home, &[])["policies"][0]), ["ann"]);
    serving.stop();
}
