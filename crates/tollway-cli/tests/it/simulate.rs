//! `tollway simulate`, as a user runs it. Together these tests prove B7: the effect of a policy on a traffic log, before
//! deployment. Expected results were computed by hand; see `TRAFFIC`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::home::{Home, golden};
use serde_json::Value;

/// Eight calls of two teams. Under `3 requests / minute`, team-a gets 12:00:00, :10 and :30, is denied at :40 (20 s before
/// the minute ends) and at :55 (5 s before), and is granted again at 12:01:05; team-b gets both of its calls.
const TRAFFIC: [(&str, &str, u64); 8] = [
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

fn jsonl() -> String {
    let line = |(time, team, tokens)| {
        format!("{{\"time\":\"2026-11-15T{time}Z\",\"subject\":\"{team}\",\"tokens\":{tokens}}}\n")
    };
    TRAFFIC.into_iter().map(line).collect()
}

fn csv() -> String {
    let line = |(time, team, tokens)| format!("\"{team}\",2026-11-15 {time},{tokens}\n");
    "User,Timestamp,tokens\n".to_owned() + &TRAFFIC.into_iter().map(line).collect::<String>()
}

fn clf() -> String {
    let line = |(time, team, tokens)| {
        format!("{team} - - [15/Nov/2026:{time} +0000] \"GET / HTTP/1.1\" 200 {tokens} \"-\" \"curl\"\n")
    };
    TRAFFIC.into_iter().map(line).collect()
}

fn home() -> Home {
    let home = Home::with_config(CONFIG);
    home.write("traffic.jsonl", jsonl());
    home
}

/// The JSON result of a successful run.
fn answer(home: &Home, arguments: &[&str]) -> Value {
    let (exit, answer, errors) = home.run(&[&["simulate", "--json"], arguments].concat());
    assert_eq!(exit, 0, "{errors}");
    serde_json::from_str(&answer).unwrap()
}

/// Granted and denied calls of each trial policy.
fn counts(answer: &Value) -> Vec<(u64, u64)> {
    let policies = answer["policies"].as_array().unwrap();
    policies
        .iter()
        .map(|policy| (policy["granted"].as_u64().unwrap(), policy["denied"].as_u64().unwrap()))
        .collect()
}

/// Checks that it exits with this code, an empty standard output, and these words on standard error.
fn fails(home: &Home, arguments: &[&str], code: i32, words: &[&str]) {
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
    let guide = read("../../docs/guide/simulate.md");
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

/// A log without line ends is refused after a bounded number of bytes, whether it is a device or a pipe.
#[test]
fn oversized_line_is_rejected() {
    let home = home();
    let mut simulate = home.tollway(&["simulate", "/dev/zero", "--policy", "api"]);
    let output = simulate.timeout(Duration::from_secs(10)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(65), "{errors}");
    assert!(errors.contains("/dev/zero: line 1 is longer than 16777216 bytes"), "{errors}");
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

/// B7: the same traffic in every format, detected and named.
#[test]
fn every_format_gives_the_same_result() {
    let home = home();
    home.write("traffic.csv", csv());
    home.write("semicolons.csv", format!("\u{feff}{}", csv().replace(',', ";").replace('\n', "\r\n")));
    home.write("access.log", clf());
    for (log, format) in
        [("traffic.jsonl", "jsonl"), ("traffic.csv", "csv"), ("semicolons.csv", "csv"), ("access.log", "clf")]
    {
        let found = answer(&home, &[log, "--policy", "api"]);
        assert_eq!((counts(&found), &found["format"]), (vec![(6, 2)], &Value::from(format)), "{log}");
        assert_eq!(found["policies"][0]["limits"][0]["peak_at"], "2026-11-15T12:00:30Z", "{log}");
        assert_eq!(answer(&home, &[log, "--policy", "api", "--format", format]), found, "{log}");
    }
    let bytes = answer(&home, &["access.log", "--limit", "1000 bytes / minute"]);
    assert_eq!(counts(&bytes), [(8, 0)], "750 and 950 in the first minute");
}

/// A quoted CSV field may contain line ends, within the sampled lines and after them.
#[test]
fn csv_fields_may_span_lines() {
    let home = home();
    let line = |(time, team, tokens)| {
        format!(
            "\"{team}\nof two lines\",2026-11-15 {time},\"{}\n\nsaid \"\"yes\"\"\",{tokens}\n",
            "x\n".repeat(8)
        )
    };
    let log = "user,timestamp,note,tokens\n".to_owned() + &TRAFFIC.into_iter().map(line).collect::<String>();
    home.write("notes.csv", &log);
    home.write("windows.csv", log.replace('\n', "\r\n"));
    for log in ["notes.csv", "windows.csv"] {
        let found = answer(&home, &[log, "--policy", "api"]);
        assert_eq!(counts(&found), [(6, 2)], "{log}");
        assert_eq!(found["most_calls"]["subjects"][0]["subject"], "team-a\nof two lines", "{log}");
        let (exit, _, errors) = home.run(&["simulate", log, "--policy", "api"]);
        assert_eq!((exit, errors.contains("skipped")), (0, false), "{log}: {errors}");
    }
}

/// An unclosed quote costs only its own line.
#[test]
fn unclosed_quote_costs_one_line() {
    let home = home();
    let lines = (0..200).map(|_| "1794744000,a\n").collect::<String>();
    home.write("quote.csv", format!("time,subject\n1794744000,\"a\n{lines}"));
    let (_, text, errors) = home.run(&["simulate", "quote.csv", "--policy", "api", "--json"]);
    assert!(errors.contains("line 2 skipped: a quote is not closed"), "{errors}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(counts(&found), [(3, 197)]);
}

/// Custom field names; times as numbers.
#[test]
fn fields_can_be_named() {
    let home = home();
    home.write(
        "own.jsonl",
        "{\"when\":1794744000.5,\"who\":7,\"n\":\"2\"}\n{\"when\":1794744001500,\"who\":7,\"n\":1.5}\n",
    );
    let named = ["own.jsonl", "--time", "when", "--subject", "who", "--cost", "requests=n"];
    let found = answer(&home, &[named.as_slice(), &["--policy", "api"]].concat());
    assert_eq!(
        (counts(&found), &found["most_calls"]["subjects"][0]["subject"]),
        (vec![(1, 1)], &Value::from("7"))
    );
    assert_eq!(
        (&found["first_at"], &found["last_at"]),
        (&Value::from("2026-11-15T12:00:00.5Z"), &Value::from("2026-11-15T12:00:01.5Z"))
    );
    fails(
        &home,
        &["own.jsonl", "--policy", "api"],
        65,
        &["no known time field", "--time FIELD; the fields are n, when, who"],
    );
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
    assert_eq!(limits(2), ["1 requests / hour"]);
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

/// Standard input is a log as well.
#[test]
fn log_can_come_from_standard_input() {
    let output =
        home().tollway(&["simulate", "-", "--policy", "api", "--json"]).write_stdin(csv()).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((counts(&found), &found["log"]), (vec![(6, 2)], &Value::from("standard input")));
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

/// Every kind of line that is not a call is skipped, and the first five are listed.
#[test]
fn unreadable_lines_are_skipped_with_a_warning() {
    let home = home();
    let call = "{\"time\":1794744000,\"subject\":\"a\"}\n";
    let lines: [&[u8]; 10] = [
        call.as_bytes(),
        b"{\"time\":1794744000,\n",
        b"[1, 2]\n",
        b"\n",
        b"{\"time\":\"noon\",\"subject\":\"a\"}\n",
        b"{\"time\":1794744000}\n",
        b"{\"time\":1794744000,\"subject\":[1]}\n",
        b"{\"time\":1794744000,\"subject\":\"\xff\"}\n",
        &[b'x'; 70_000],
        b"\n{\"time\":-1,\"subject\":\"a\"}",
    ];
    home.write("bad.jsonl", lines.concat());
    let (exit, text, errors) = home.run(&["simulate", "bad.jsonl", "--policy", "api"]);
    assert_eq!(exit, 0, "{errors}");
    assert!(text.starts_with("bad.jsonl: 1 call of 1 subject in 0 ms, 8 lines skipped\n"), "{text}");
    golden("simulate_unreadable.txt", &errors);
    let found = answer(&home, &["bad.jsonl", "--policy", "api"]);
    assert_eq!((found["calls"].as_u64(), found["skipped_lines"].as_u64()), (Some(1), Some(8)));

    answer(&home, &["bad.jsonl", "--policy", "api", "--max-bad", "8"]);
    fails(
        &home,
        &["bad.jsonl", "--policy", "api", "--max-bad", "7"],
        65,
        &["more than 7 lines of bad.jsonl are unreadable"],
    );
    assert_eq!(home.run(&["simulate", "bad.jsonl", "--policy", "api", "--quiet"]).2, "");
}

/// Invalid lines of the other formats.
#[test]
fn unreadable_lines_of_other_formats() {
    let home = home();
    home.write("bad.csv", "time,subject,tokens\n1794744000,a,1\n1794744000,a\n1794744000,\"a,1\n1794744000,,1\n1794744000,a,-1\n1794744000,a,many\n");
    let errors = home.run(&["simulate", "bad.csv", "--policy", "gemini"]).2;
    for words in [
        "line 3 skipped: 2 fields, where the first line has 3",
        "line 4 skipped: a quote is not closed",
        "line 5 skipped: no field \"subject\"",
        "line 6 skipped: \"-1\" is not an amount of tokens",
        "line 7 skipped: \"many\" is not an amount of tokens",
    ] {
        assert!(errors.contains(words), "{errors}");
    }
    home.write("bad.log", clf() + "not a line\n");
    let errors = home.run(&["simulate", "bad.log", "--policy", "api"]).2;
    assert!(errors.contains("line 9 skipped: not a line of an access log"), "{errors}");
}

/// A log without a call is an error, not an empty result.
#[test]
fn unreadable_log_fails() {
    let home = home();
    home.write("empty", "");
    home.write("blank", "\n\n");
    home.write("words", "once upon a time\nthere was a log\n");
    home.write("header.csv", "time,subject\n");
    home.write("none.jsonl", "{\"time\":\"noon\",\"subject\":\"a\"}\n");
    let policy = ["--policy", "api"];
    let run =
        |log: &str, code, words: &[&str]| fails(&home, &[&[log], policy.as_slice()].concat(), code, words);
    run("empty", 65, &["empty has no readable line"]);
    run("blank", 65, &["blank has no readable line"]);
    run("words", 65, &["neither JSON lines, nor CSV", "--format"]);
    run("header.csv", 65, &["header.csv has no readable line"]);
    run("none.jsonl", 65, &["line 1 skipped: \"noon\" is not a time", "none.jsonl has no readable line"]);
    run("missing.log", 1, &["cannot read missing.log", "No such file"]);
    run(".", 1, &["cannot read ."]);
    fails(
        &home,
        &["traffic.jsonl", "--policy", "api", "--format", "clf"],
        65,
        &["not a line of an access log"],
    );
}

/// Errors of the policy or the config.
#[test]
fn unknown_policy_fails() {
    let home = home();
    fails(
        &home,
        &["traffic.jsonl", "--policy", "apo"],
        78,
        &["there is no policy \"apo\"", "did you mean \"api\"?"],
    );
    fails(&home, &["traffic.jsonl", "--policy", "something"], 78, &["the config has api, gemini, shadow"]);
    let bare = Home::new();
    bare.write("traffic.jsonl", jsonl());
    fails(&bare, &["traffic.jsonl", "--policy", "api"], 78, &["tollway.toml"]);
    assert_eq!(
        counts(&answer(&bare, &["traffic.jsonl", "--limit", "3 / minute"])),
        [(6, 2)],
        "needs no config"
    );
}

/// Invalid arguments.
#[test]
fn invalid_arguments_fail() {
    let home = home();
    home.write("traffic.csv", csv());
    let api = |more: &[&'static str]| [&["traffic.jsonl", "--policy", "api"], more].concat();
    fails(&home, &["traffic.jsonl"], 2, &["--policy"]);
    fails(&home, &["--policy", "api"], 2, &["<LOG>"]);
    fails(&home, &api(&["--limit", "3 / minute"]), 2, &["cannot be used with"]);
    fails(&home, &["traffic.jsonl", "--limit", "3 / fortnight"], 2, &["fortnight"]);
    fails(&home, &api(&["--what-if", "many"]), 2, &["--what-if"]);
    fails(&home, &api(&["--max-wait", "long"]), 2, &["is not a length of time"]);
    fails(&home, &api(&["--max-wait", "2d"]), 2, &["--max-wait 2d exceeds the maximum of 1d"]);
    fails(
        &home,
        &api(&["--what-if", "3 / minute sliding", "--max-wait", "1s"]),
        2,
        &["cannot be booked ahead", "omit --max-wait"],
    );
    fails(&home, &api(&["--format", "xml"]), 2, &["jsonl, csv, clf"]);
    fails(&home, &api(&["--max-bad=-1"]), 2, &["--max-bad"]);
    fails(&home, &api(&["--cost", "tokens"]), 2, &["write it as tokens=FIELD or tokens=500"]);
    fails(&home, &api(&["--cost", "requests=9999999999999999"]), 2, &["more than the largest amount"]);
    fails(&home, &api(&["--cost", "request=n"]), 2, &["did you mean \"requests\"?"]);
    fails(&home, &api(&["--cost", "requests=1", "--cost", "requests=2"]), 2, &["twice"]);
    fails(
        &home,
        &["traffic.csv", "--policy", "api", "--cost", "requests=token"],
        65,
        &["no field \"token\"", "did you mean \"tokens\"?"],
    );
    let what_ifs = ["--what-if", "4 / minute"].repeat(5);
    fails(&home, &api(&what_ifs), 2, &["at most 4 --what-if are allowed, not 5"]);
    let (exit, _, errors) =
        home.run(&["simulate", "traffic.jsonl", "--policy", "api", "--svg", "no/such/folder.svg"]);
    assert_eq!(exit, 1);
    assert!(errors.contains("cannot write no/such/folder.svg"), "{errors}");
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
