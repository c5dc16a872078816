//! `tollway simulate`, as a user runs it. Together these tests prove B7: the effect of a policy on a traffic log, before
//! deployment. Expected results were computed by hand; see `TRAFFIC`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use crate::home::{Home, golden};
use serde_json::Value;

/// Eight calls of two teams. Under `3 requests / minute`, team-a gets 12:00:00, :10 and :30, is denied at :40 (20 s before
/// the minute ends) and at :55 (5 s before), and is granted again at 12:01:05; team-b gets both of its calls.
pub(crate) const TRAFFIC: [(&str, &str, u64); 8] = [
    ("12:00:00", "team-a", 100),
    ("12:00:10", "team-a", 250),
    ("12:00:20", "team-b", 900),
    ("12:00:30", "team-a", 100),
    ("12:00:40", "team-a", 100),
    ("12:00:50", "team-b", 50),
    ("12:00:55", "team-a", 100),
    ("12:01:05", "team-a", 100),
];

const CONFIG: &str = "\
[policies.api]
limits = [\"3 requests / minute\"]

[policies.gemini]
limits = [\"3 requests / minute\", \"500 tokens / minute\"]

[policies.shadow]
limits = [\"3 requests / minute\"]
shadow = true
";

pub(crate) fn jsonl() -> String {
    let line = |(time, team, tokens)| {
        format!("{{\"time\":\"2026-11-15T{time}Z\",\"subject\":\"{team}\",\"tokens\":{tokens}}}\n")
    };
    TRAFFIC.into_iter().map(line).collect()
}

pub(crate) fn csv() -> String {
    let line = |(time, team, tokens)| format!("\"{team}\",2026-11-15 {time},{tokens}\n");
    "User,Timestamp,tokens\n".to_owned() + &TRAFFIC.into_iter().map(line).collect::<String>()
}

pub(crate) fn clf() -> String {
    let line = |(time, team, tokens)| {
        format!("{team} - - [15/Nov/2026:{time} +0000] \"GET / HTTP/1.1\" 200 {tokens} \"-\" \"curl\"\n")
    };
    TRAFFIC.into_iter().map(line).collect()
}

pub(crate) fn home() -> Home {
    let home = Home::with_config(CONFIG);
    home.write("traffic.jsonl", jsonl());
    home
}

/// The JSON result of a successful run.
pub(crate) fn answer(home: &Home, arguments: &[&str]) -> Value {
    let (exit, answer, errors) = home.run(&[&["simulate", "--json"], arguments].concat());
    assert_eq!(exit, 0, "{errors}");
    serde_json::from_str(&answer).unwrap()
}

/// Granted and denied calls of each trial policy.
pub(crate) fn counts(answer: &Value) -> Vec<(u64, u64)> {
    let policies = answer["policies"].as_array().unwrap();
    policies
        .iter()
        .map(|policy| (policy["granted"].as_u64().unwrap(), policy["denied"].as_u64().unwrap()))
        .collect()
}

/// Checks that it exits with this code, an empty standard output, and these words on standard error.
pub(crate) fn fails(home: &Home, arguments: &[&str], code: i32, words: &[&str]) {
    let (exit, answer, errors) = home.run(&[&["simulate"], arguments].concat());
    assert_eq!((exit, answer.as_str()), (code, ""), "{arguments:?}: {errors}");
    for word in words {
        assert!(errors.contains(word), "{arguments:?} does not say {word:?}: {errors}");
    }
}

/// B7: the table, with a what-if beside the policy.
#[test]
fn text_summary() {
    let arguments = ["simulate", "traffic.jsonl", "--policy", "api", "--what-if", "4 requests / minute"];
    let (exit, answer, errors) = home().run(&arguments);
    assert_eq!((exit, errors.as_str()), (0, ""));
    golden("simulate.txt", &answer);
}

/// B7: the same as JSON.
#[test]
fn json_summary() {
    let answer = answer(&home(), &["traffic.jsonl", "--policy", "api", "--what-if", "4 requests / minute"]);
    golden("simulate.json", &(serde_json::to_string_pretty(&answer).unwrap() + "\n"));
    assert_eq!(counts(&answer), [(6, 2), (7, 1)]);
}

/// B7: the chart with two subjects, and with one, where the limit is drawn as a line.
#[test]
fn the_chart() {
    let home = home();
    let draw = |subject: &str, golden_name: &str| {
        let arguments =
            ["traffic.jsonl", "--limit", "3 requests / minute", "--what-if", "4 requests / 10 seconds"];
        answer(&home, &[arguments.as_slice(), &["--subject", subject, "--svg", golden_name]].concat());
        let chart = fs::read_to_string(home.path().join(golden_name)).unwrap();
        golden(golden_name, &chart);
        chart
    };
    assert!(
        !draw("subject", "simulate.svg").contains("class=\"limit\""),
        "a limit of each is no limit of all"
    );
    assert!(draw("-", "simulate_shared.svg").contains("class=\"limit\""));
}

/// The guide shows the command's real output.
#[test]
fn guide_examples_match_the_output() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let guide = read("../../../docs/guide/simulate.md");
    for shown in [jsonl(), read("tests/golden/simulate.txt"), read("tests/golden/simulate_wait.txt")] {
        assert!(guide.contains(&shown), "the guide lacks\n{shown}");
    }
}

/// A file name that looks like markup is escaped.
#[test]
fn chart_escapes_text() {
    let home = home();
    home.write("<b>&.jsonl", jsonl());
    answer(&home, &["<b>&.jsonl", "--policy", "api", "--svg", "chart.svg"]);
    let chart = fs::read_to_string(home.path().join("chart.svg")).unwrap();
    assert!(chart.contains("&lt;b&gt;&amp;.jsonl: 8 calls") && !chart.contains("<b>"));
}

/// A chart replaces a file only with `--force`. The refusal comes before the replay, which may take long.
#[test]
fn chart_overwrites_a_file_only_with_force() {
    let home = home();
    home.write("notes.svg", "my notes");
    let draw = ["traffic.jsonl", "--policy", "api", "--svg", "notes.svg"];
    fails(&home, &draw, 1, &["notes.svg already exists", "--force"]);
    let notes = || fs::read_to_string(home.path().join("notes.svg")).unwrap();
    assert_eq!(notes(), "my notes");
    answer(&home, &[draw.as_slice(), &["--force"]].concat());
    assert!(notes().starts_with("<svg"), "{}", notes());
    let (exit, _, errors) = home.run(&["simulate", "traffic.jsonl", "--policy", "api", "--force"]);
    assert_eq!(exit, 2, "{errors}");
    assert!(home.run(&["simulate", "--help"]).1.contains("--force"));
}

/// B7: with waits, :40 and :55 are granted for 12:01:00; with shorter ones, only :55 is.
#[test]
fn calls_wait_with_max_wait() {
    let home = home();
    let arguments = ["simulate", "traffic.jsonl", "--limit", "3 requests / minute", "--max-wait", "30s"];
    let (exit, text, errors) = home.run(&arguments);
    assert_eq!((exit, errors.as_str()), (0, ""));
    golden("simulate_wait.txt", &text);

    let shorter = answer(&home, &["traffic.jsonl", "--policy", "api", "--max-wait", "10s"]);
    assert_eq!(counts(&shorter), [(7, 1)]);
    assert_eq!(shorter["policies"][0]["wait_ms"]["max"], 5_000);
    assert_eq!(shorter["policies"][0]["fits_after_ms"]["max"], 20_000);
}

/// The policy's own maximum wait applies, with a warning.
#[test]
fn calls_wait_no_longer_than_the_policy_allows() {
    let home = Home::with_config("[policies.api]\nlimits = [\"3 requests / minute\"]\nmax_wait = \"10s\"\n");
    home.write("traffic.jsonl", jsonl());
    let (exit, answer, errors) =
        home.run(&["simulate", "traffic.jsonl", "--policy", "api", "--max-wait", "30s", "--json"]);
    assert_eq!((exit, counts(&serde_json::from_str(&answer).unwrap())), (0, vec![(7, 1)]));
    assert!(errors.contains("calls wait at most 10 s"), "{errors}");
}

/// All together: 3 of the 7 calls in the first minute, and the one in the second.
#[test]
fn all_calls_can_share_one_subject() {
    let found = answer(&home(), &["traffic.jsonl", "--policy", "api", "--subject", "-"]);
    assert_eq!((counts(&found), found["subjects"].as_u64()), (vec![(4, 4)], Some(1)));
}

/// A log without a subject field shares one subject, with a note.
#[test]
fn log_without_subjects_shares_one() {
    let home = home();
    home.write("bare.jsonl", "{\"ts\":1794744000}\n");
    let (exit, _, errors) = home.run(&["simulate", "bare.jsonl", "--policy", "api"]);
    assert_eq!(exit, 0);
    assert!(errors.contains("no subject field found, so all calls share one"), "{errors}");
}

/// Tokens by field, by number, and not at all. team-a: 100, 250, 100 is 450 of 500; :40 and :55 are denied by requests.
#[test]
fn costs_are_counted_in_their_units() {
    let home = home();
    let run = |more: &[&str]| answer(&home, &[&["traffic.jsonl", "--policy", "gemini"], more].concat());
    let by_name = run(&[]);
    assert_eq!(counts(&by_name), [(5, 3)], "team-b's 900 can never be granted");
    assert_eq!(by_name["policies"][0]["never_grantable"], 1);
    let limits = &by_name["policies"][0]["limits"];
    assert_eq!((&limits[0]["denied"], &limits[1]["denied"]), (&Value::from(2), &Value::from(1)));
    assert_eq!((&limits[1]["peak_used"], &limits[1]["peak_share"]), (&Value::from(450), &Value::from(0.9)));
    assert_eq!(run(&["--cost", "tokens=tokens"]), by_name);

    let together = run(&["--subject", "-"]);
    assert_eq!(
        counts(&together),
        [(4, 4)],
        "100, 250, not 900, 100, then no request is left; and 100 in the next minute"
    );
    assert_eq!(together["policies"][0]["limits"][1]["peak_used"], 450);

    let by_number = run(&["--cost", "tokens=200"]);
    assert_eq!(by_number["policies"][0]["limits"][1]["peak_used"], 400);
    assert_eq!(
        counts(&by_number),
        [(5, 3)],
        "two of team-a in the first minute, one in the second, two of team-b"
    );

    let (_, _, errors) = home.run(&["simulate", "traffic.jsonl", "--limit", "9 bytes / day"]);
    assert!(
        errors.contains("calls cost no bytes: the log has no such field; set it with --cost bytes=FIELD"),
        "{errors}"
    );
}

/// A what-if replaces the limit of its name and leaves the others; without one of its name it is the whole policy.
#[test]
fn what_if_replaces_the_limit_of_its_name() {
    let what_ifs = ["--what-if", "4 requests / minute", "--what-if", "1 requests / hour"];
    let found = answer(&home(), &[&["traffic.jsonl", "--policy", "gemini"], what_ifs.as_slice()].concat());
    let limits = |index: usize| {
        let limits = found["policies"][index]["limits"].as_array().unwrap();
        limits.iter().map(|limit| limit["limit"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(limits(0), ["3 requests / minute", "500 tokens / minute"]);
    assert_eq!(limits(1), ["4 requests / minute", "500 tokens / minute"]);
    assert_eq!(limits(2), ["1 request / hour"]);
    assert_eq!(counts(&found)[2], (2, 6), "one each");
}

/// A shadow never denies; the simulation shows what it would deny.
#[test]
fn shadow_policy_is_simulated_as_enforced() {
    assert_eq!(counts(&answer(&home(), &["traffic.jsonl", "--policy", "shadow"])), [(6, 2)]);
}

/// Slots are left out, because a log does not say how long calls took.
#[test]
fn concurrency_limits_are_ignored() {
    let home = home();
    let (exit, _, errors) =
        home.run(&["simulate", "traffic.jsonl", "--limit", "1 concurrent", "--limit", "3 / minute"]);
    assert_eq!(exit, 0);
    assert!(
        errors.contains("1 concurrent is ignored: a log does not contain the duration of calls"),
        "{errors}"
    );
    fails(&home, &["traffic.jsonl", "--limit", "1 concurrent"], 2, &["cannot be simulated"]);
}

/// I7: a meter's time only moves forward. A call of 12:00:50 below three of 12:01:10 is judged as of 12:01:10.
#[test]
fn out_of_order_calls_use_the_latest_time() {
    let home = home();
    let at = |time| format!("{{\"time\":\"2026-11-15T{time}Z\",\"subject\":\"a\"}}\n");
    home.write("mixed.jsonl", at("12:01:10").repeat(3) + &at("12:00:50"));
    let found = answer(&home, &["mixed.jsonl", "--policy", "api"]);
    assert_eq!((counts(&found), found["out_of_order"].as_u64()), (vec![(3, 1)], Some(1)));
    assert_eq!(found["policies"][0]["fits_after_ms"]["max"], 50_000);
    assert_eq!(found["first_at"], "2026-11-15T12:00:50Z");
    let (_, _, errors) = home.run(&["simulate", "mixed.jsonl", "--policy", "api"]);
    assert!(errors.contains("1 call out of order;"), "{errors}");
}

/// More subjects than counters: memory is bounded, the frequent subject is found, and the output says that counts are
/// inexact. Decisions stay exact.
#[test]
fn many_subjects_use_bounded_memory() {
    let home = home();
    let mut log = String::from("time,subject\n");
    for number in 0..30_000 {
        log += &format!("1794744000,s{number}\n");
        if number % 10 == 0 {
            log += "1794744000,often\n";
        }
    }
    home.write("flood.csv", log);
    let found = answer(&home, &["flood.csv", "--policy", "api"]);
    assert_eq!(counts(&found), [(30_003, 2_997)]);
    assert_eq!((found["subjects"].as_u64(), found["subjects_exact"].as_bool()), (Some(20_000), Some(false)));
    assert_eq!(found["most_calls"]["subjects"][0]["subject"], "often");
    let text = home.run(&["simulate", "flood.csv", "--policy", "api"]).1;
    assert!(text.contains("of more than 20,000 subjects") && text.contains("most calls (at most "), "{text}");
}

/// Nothing is counted in the store that other commands share.
#[test]
fn simulation_leaves_no_files() {
    let home = home();
    answer(&home, &["traffic.jsonl", "--policy", "api"]);
    let mut names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["tollway.toml", "traffic.jsonl"]);
}

#[test]
fn outcomes_of_all_calls_are_written_on_request() {
    let home = Home::with_config(CONFIG);
    home.write("traffic.jsonl", jsonl());
    let simulate = ["simulate", "traffic.jsonl", "--policy", "api", "--outcomes", "calls.jsonl"];
    assert_eq!(home.run(&simulate).0, 0);
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(home.path().join("calls.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let granted: Vec<bool> = lines().iter().map(|line| line["granted"].as_bool().unwrap()).collect();
    assert_eq!(granted, [true, true, true, true, false, true, false, true]);
    let denied = &lines()[4];
    assert_eq!((&denied["call"], &denied["subject"]), (&5.into(), &"team-a".into()));
    assert_eq!((&denied["limit"], &denied["fits_after_ms"]), (&"requests_per_minute".into(), &20_000.into()));
    assert_eq!(lines()[0]["wait_ms"], 0);
    let (exit, _, stderr) = home.run(&simulate);
    assert!(
        exit == 1 && stderr.contains("calls.jsonl already exists") && stderr.contains("--force"),
        "{stderr}"
    );
    let what_if = [&simulate[..], &["--force", "--what-if", "4 requests / minute"]].concat();
    assert_eq!(home.run(&what_if).0, 0);
    assert_eq!(lines().len(), 16, "one line for each call and policy");
}
