//! `tollway take`, `usage`, `why` and `limit`, as a user of a shell sees them (A2, A3).
#![allow(clippy::unwrap_used, missing_docs)]

use crate::home;
use crate::home::Home;
use serde_json::Value;

const CONFIG: &str = r#"
[policies.adobe]
limits = ["3 requests / day from first call"]

[policies.gemini]
limits = ["5 requests / day from first call", "10 tokens / day bucket burst 400k"]

[policies.ci]
limits = ["2 concurrent"]
"#;

fn json(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let (exit, stdout, stderr) = home.run(&[arguments, &["--json"]].concat());
    assert_eq!(stdout.lines().count(), 1, "one object: {stdout}{stderr}");
    (exit, serde_json::from_str(&stdout).unwrap())
}

#[test]
fn fourth_take_is_denied_with_a_retry_time() {
    let home = Home::with_config(CONFIG);
    for left in [2, 1, 0] {
        let (exit, answer) = json(&home, &["take", "adobe"]);
        assert_eq!((exit, &answer["granted"]), (0, &Value::Bool(true)));
        assert_eq!(answer["limits"][0]["remaining"], left);
        assert_eq!(answer["permit"].as_str().unwrap().len(), 32);
    }
    let (exit, answer) = json(&home, &["take", "adobe", "--max-wait", "0"]);
    assert_eq!((exit, &answer["granted"]), (75, &Value::Bool(false)));
    assert_eq!(answer["limit"], "requests_per_day");
    assert!(answer["retry_after_ms"].as_u64().unwrap() <= 86_400_000);
    let (exit, stdout, _) = home.run(&["take", "adobe", "--max-wait", "5s"]);
    assert_eq!(exit, 75);
    assert!(stdout.starts_with("denied by 3 requests / day from first call; retry in "), "{stdout}");
}

#[test]
fn take_waits_for_the_next_window() {
    let home = Home::new();
    let take = ["take", "slow", "--limit", "1 / second from first call", "--json"];
    let waited: Vec<u64> = (0..2).map(|_| json(&home, &take[..4]).1["waited_ms"].as_u64().unwrap()).collect();
    assert!(waited[1] >= 500, "the second waits for the rest of the second: {waited:?}");
}

#[test]
fn repeated_id_is_charged_once_and_subjects_are_separate() {
    let home = Home::with_config(CONFIG);
    for _ in 0..2 {
        assert_eq!(home.run(&["take", "adobe", "--id", "job-7"]).0, 0);
    }
    assert_eq!(json(&home, &["usage", "adobe"]).1["policies"][0]["limits"][0]["used"], 1);
    assert_eq!(home.run(&["take", "adobe", "-s", "team-a"]).0, 0);
    assert_eq!(json(&home, &["usage", "adobe", "-s", "team-a"]).1["policies"][0]["limits"][0]["used"], 1);
}

#[test]
fn usage_shows_every_policy_and_takes_nothing() {
    let home = Home::with_config(CONFIG);
    home.run(&["take", "gemini", "--cost", "tokens=100k"]);
    let (exit, stdout, stderr) = home.run(&["usage"]);
    assert_eq!((exit, stderr.as_str()), (0, ""));
    let masked = home::mask_times(&stdout);
    home::golden("usage.txt", &masked);
    assert_eq!(home.run(&["usage"]).1.lines().count(), stdout.lines().count());
}

#[test]
fn why_names_the_limit_and_a_sufficient_amount() {
    let home = Home::with_config(CONFIG);
    let (exit, stdout, _) = home.run(&["why", "gemini", "--cost", "tokens=100k"]);
    assert_eq!(exit, 0);
    assert!(stdout.starts_with("would be granted now"), "{stdout}");
    home.run(&["take", "gemini", "--cost", "tokens=400k", "--cost", "requests=5"]);
    let (exit, stdout, _) = home.run(&["why", "gemini", "--cost", "tokens=100k"]);
    assert_eq!(exit, 75);
    home::golden("why.txt", &home::mask_times(&stdout));
    let (exit, answer) = json(&home, &["why", "gemini"]);
    assert_eq!((exit, &answer["would_grant"]), (75, &Value::Bool(false)));
    assert_eq!(answer["lacking"][0]["enough"], 6);
    // The advised amount is enough, and `why` charged nothing.
    let (_, answer) = json(&home, &["limit", "set", "gemini.requests_per_day", "6"]);
    assert_eq!(answer["in_force"], "6 requests / day from first call");
    assert_eq!(home.run(&["take", "gemini", "--max-wait", "0"]).0, 0);
}

/// A vendor's hold is not a limit: both commands say whose it is.
#[test]
fn usage_and_why_show_the_hold_of_a_vendor() {
    let home = Home::with_config(&format!("{CONFIG}\n[store]\nurl = \"file:state\"\n"));
    let limiter = tollway::Limiter::builder().file_blocking(home.path().join("tollway.toml")).unwrap();
    let hold = tollway::core::Feedback { hold: tollway::Span::from_secs(600), ..Default::default() };
    limiter.feedback("adobe", hold).now().unwrap();
    drop(limiter);
    let (exit, stdout, stderr) = home.run(&["usage", "adobe"]);
    assert_eq!(exit, 0, "{stderr}");
    assert!(stdout.contains("held by the vendor until "), "{stdout}");
    let (_, answer) = json(&home, &["usage", "adobe"]);
    assert!(answer["policies"][0]["held_until"].is_string(), "{answer}");
    let (exit, stdout, _) = home.run(&["why", "adobe"]);
    assert_eq!(exit, 75);
    assert!(stdout.contains("held by the vendor until ") && !stdout.contains("day"), "{stdout}");
    assert_eq!(json(&home, &["why", "adobe"]).1["held"], true);
    assert_eq!(home.run(&["reset", "adobe"]).0, 0);
    assert_eq!(home.run(&["take", "adobe", "--max-wait", "0"]).0, 0);
}

#[test]
fn set_limit_overrides_the_config_until_cleared() {
    let home = Home::with_config(CONFIG);
    for _ in 0..3 {
        home.run(&["take", "adobe"]);
    }
    let name = "adobe.requests_per_day";
    let (exit, stdout, _) = home.run(&["limit", "set", name, "4 requests / day from first call"]);
    assert_eq!(exit, 0);
    assert!(
        stdout.starts_with("adobe.requests_per_day is now 4 requests / day from first call\n  (set at "),
        "{stdout}"
    );
    assert_eq!(home.run(&["take", "adobe", "--max-wait", "0"]).0, 0);
    assert_eq!(home.run(&["take", "adobe", "--max-wait", "0"]).0, 75);
    let (_, listed) = json(&home, &["limit", "get", name]);
    assert_eq!(listed["limits"][0]["in_force"], "4 requests / day from first call");
    assert_eq!(listed["limits"][0]["config"], "3 requests / day from first call");
    assert_eq!(home.run(&["limit", "clear", name]).0, 0);
    let (_, stdout, _) = home.run(&["limit", "get"]);
    home::golden("limit_get.txt", &stdout);
}

/// An operator stops a policy by an amount of 0. Usage stays.
#[test]
fn amount_of_zero_stops_a_policy() {
    let home = Home::with_config(CONFIG);
    let name = "adobe.requests_per_day";
    assert_eq!(home.run(&["take", "adobe"]).0, 0);
    let (exit, stdout, _) = home.run(&["limit", "set", name, "0"]);
    assert_eq!(exit, 0);
    assert!(stdout.starts_with("adobe.requests_per_day is now 0 (stopped)"), "{stdout}");
    for command in [&["take", "adobe", "--max-wait", "0"][..], &["why", "adobe"]] {
        let (exit, stdout, _) = home.run(command);
        assert_eq!(exit, 75, "{stdout}");
        let said = "denied: policy adobe is stopped: its limit requests_per_day was set to 0\n";
        assert!(stdout.starts_with(said), "{command:?}: {stdout}");
    }
    let run = ["run", "-p", "adobe", "--max-wait", "0", "--", "true"];
    let (exit, _, stderr) = home.run(&run);
    assert_eq!(exit, 75);
    assert!(stderr.contains("policy adobe is stopped"), "{stderr}");
    let (_, listed) = json(&home, &["limit", "get", name]);
    let limit = &listed["limits"][0];
    assert_eq!((&limit["in_force"], &limit["amount"]), (&"0 (stopped)".into(), &0.into()));
    assert_eq!(home.run(&["limit", "clear", name]).0, 0);
    assert_eq!(home.run(&["take", "adobe", "--max-wait", "0"]).0, 0);
    assert_eq!(json(&home, &["usage", "adobe"]).1["policies"][0]["limits"][0]["used"], 2);
}

/// C9: a server that names subjects after their header keeps `x-tenant:acme`; an operator asks for `acme`.
#[test]
fn why_says_that_a_subject_has_no_usage_and_names_those_that_end_alike() {
    let home = Home::with_config("[policies.api]\nlimits = ['2 / day']");
    for subject in ["x-tenant:acme", "x-tenant:acme", "y:Acme", "x-tenant:macme", "other"] {
        assert_eq!(home.run(&["take", "api", "-s", subject, "-q"]).0, 0);
    }
    let (exit, said, _) = home.run(&["why", "api", "-s", "acme"]);
    assert_eq!(exit, 0);
    assert!(said.contains("  no usage is kept for subject acme\n"), "{said}");
    let named: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once("tollway why api -s "))
        .map(|(_, name)| name)
        .collect();
    assert_eq!(named, ["x-tenant:acme", "y:Acme"]);
    assert_eq!(home.run(&["why", "api", "-s", named[0]]).0, 75, "the command that it names says why");
    let (_, answer) = json(&home, &["why", "api", "-s", "acme"]);
    assert_eq!(
        (&answer["usage_kept"], &answer["similar_subjects"][0]),
        (&false.into(), &"x-tenant:acme".into())
    );
    let (_, said, _) = home.run(&["why", "api", "-s", "other"]);
    assert!(!said.contains("no usage"), "{said}");
    let (_, said, _) = home.run(&["why", "api", "-s", "nothing-like-it"]);
    assert!(said.ends_with("  no usage is kept for subject nothing-like-it\n"), "{said}");
}

#[test]
fn errors_have_their_exit_codes_and_take_nothing() {
    let home = Home::with_config(CONFIG);
    for (arguments, exit, says) in [
        (&["take", "adob"][..], 66, "did you mean \"adobe\"?"),
        (&["take"], 2, "<POLICY>"),
        (&["take", "adobe", "--cost", "token=1"], 2, "no limit of policy adobe counts \"token\""),
        (&["take", "adobe", "--cost", "tokens"], 2, "write it like tokens=3750"),
        (&["take", "adobe", "--cost", "requests=4"], 2, "can never be granted"),
        (&["take", "adobe", "--max-wait", "soon"], 2, "soon"),
        (&["take", "adobe", "--max-wait", "400d"], 2, "exceeds the maximum"),
        (&["take", "adobe", "--cost", "requests=1", "--cost", "requests=2"], 2, "gives requests twice"),
        (&["usage", "--limit", "5 / day"], 2, "--limit needs a policy"),
        (&["limit", "set", "ci.concurrent", "3 concurrent expires 2m"], 2, "only its amount and burst"),
        (&["take", "adobe", "--limit", "3 requests / dya"], 2, "dya"),
        (&["take", "ci"], 2, "tollway run ci"),
        (&["usage", "nobody"], 66, "there is no policy \"nobody\""),
        (&["why", "nobody"], 66, "there is no policy \"nobody\""),
        (&["limit", "set", "adobe", "5"], 2, "POLICY.LIMIT"),
        (&["limit", "set", "adobe.requests_per_dya", "5"], 66, "no limit \"requests_per_dya\""),
        (&["limit", "set", "adobe.requests_per_day", "5 / hour"], 2, "only its amount and burst"),
        (&["limit", "set", "adobe.requests_per_day", "0 / day from first call"], 2, "amount is 0"),
        (&["limit", "get", "nothing"], 66, "\"nothing\""),
        (&["take", "adobe", "--store", "memory:"], 78, "--store file:PATH"),
        (&["take", "adobe", "--store", "redis"], 2, "file:PATH"),
        (&["take", "adobe", "--store", "file:/dev/null/x"], 69, "/dev/null"),
        (&["take", "adobe", "--config", "none.toml"], 78, "none.toml"),
        (&["nonsense"], 2, "nonsense"),
    ] {
        let (code, _, stderr) = home.run(arguments);
        assert_eq!(code, exit, "{arguments:?}: {stderr}");
        assert!(stderr.contains(says), "{arguments:?} says {stderr}");
    }
    assert_eq!(json(&home, &["usage", "adobe"]).1["policies"][0]["limits"][0]["used"], 0);
    let (code, _, stderr) = Home::new().run(&["take", "adobe"]);
    assert_eq!(code, 78);
    assert!(stderr.contains("--limit \"200 requests / minute\""), "{stderr}");
}

/// C9: counters can be inspected and reset.
#[test]
fn c9_reset_clears_the_usage_of_one_subject() {
    let home = Home::with_config(CONFIG);
    for subject in ["a", "b"] {
        for _ in 0..3 {
            assert_eq!(home.run(&["take", "adobe", "-s", subject, "-q"]).0, 0);
        }
    }
    assert_eq!(home.run(&["reset", "adobe", "-s", "a"]).1, "usage of adobe reset for a\n");
    assert_eq!(json(&home, &["reset", "adobe", "-s", "none"]).1["reset"], true);
    assert_eq!(home.run(&["take", "adobe", "-s", "a", "--max-wait", "0"]).0, 0);
    assert_eq!(home.run(&["take", "adobe", "-s", "b", "--max-wait", "0"]).0, 75);
    assert_eq!(home.run(&["reset", "nobody"]).0, 66);
}

/// A config means one store, whatever the working directory.
#[test]
fn relative_store_path_starts_at_the_config() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("project")).unwrap();
    let config = "[store]\nurl = 'file:state'\n[policies.p]\nlimits = ['1 / day from first call']";
    home.write("project/tollway.toml", config);
    assert_eq!(home.run(&["take", "p", "--config", "project/tollway.toml"]).0, 0);
    let mut inside = home.tollway(&["take", "p", "--max-wait", "0"]);
    assert_eq!(inside.current_dir(home.path().join("project")).output().unwrap().status.code(), Some(75));
}

#[test]
fn limit_option_is_not_overridden_by_the_store() {
    let home = Home::with_config(CONFIG);
    home.run(&["limit", "set", "adobe.requests_per_day", "250"]);
    let brought = ["usage", "adobe", "--limit", "5 requests / day from first call"];
    assert_eq!(json(&home, &brought).1["policies"][0]["limits"][0]["amount"], 5);
}

/// A command has no local meters: while the store fails it takes nothing, unless the policy is open.
#[test]
fn unavailable_store_denies_unless_the_policy_is_open() {
    let home = Home::new();
    let away = "[store]\nurl = 'redis://127.0.0.1:1/0?deadline=100ms'\n[policies.p]\nlimits = ['9 / day']\n";
    for (mode, exit) in [("local", 69), ("closed", 69), ("open", 0)] {
        home.write("tollway.toml", format!("{away}when_store_fails = '{mode}'"));
        let (code, _, stderr) = home.run(&["take", "p"]);
        assert_eq!(code, exit, "{mode}: {stderr}");
        assert!(mode != "open" || stderr.contains("granted without"), "{stderr}");
    }
}

#[test]
fn damaged_store_is_reported_and_unchanged() {
    let home = Home::with_config(CONFIG);
    let path = home.write("state", "something else\n");
    let (exit, _, stderr) = home.run(&["take", "adobe", "--store", "file:state"]);
    assert_eq!(exit, 69);
    assert!(stderr.contains("state"), "{stderr}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "something else\n");
}
