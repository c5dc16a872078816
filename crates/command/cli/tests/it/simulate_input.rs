//! The logs that `tollway simulate` reads: every format, and what it says of lines, logs and arguments it cannot use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use crate::home::{Home, golden};
use crate::simulate::{TRAFFIC, answer, clf, counts, csv, fails, home, jsonl};
use serde_json::Value;

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

/// Standard input is a log as well.
#[test]
fn log_can_come_from_standard_input() {
    let output =
        home().tollway(&["simulate", "-", "--policy", "api", "--json"]).write_stdin(csv()).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((counts(&found), &found["log"]), (vec![(6, 2)], &Value::from("standard input")));
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
    run("missing.log", 66, &["there is no file missing.log"]);
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
        66,
        &["there is no policy \"apo\"", "did you mean \"api\"?"],
    );
    fails(&home, &["traffic.jsonl", "--policy", "something"], 66, &["the config has api, gemini, shadow"]);
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

/// The log is looked for first: without a policy, too, what is missing is the file.
#[test]
fn missing_log_is_named_whatever_else_is_missing() {
    for arguments in
        [&["nope.log"][..], &["nope.log", "--policy", "api"], &["nope.log", "--limit", "3 / day"]]
    {
        fails(&Home::new(), arguments, 66, &["there is no file nope.log"]);
    }
    let home = home();
    fails(&home, &["traffic.jsonl"], 2, &["--policy NAME", "--limit \"200 requests / minute\""]);
}
