//! `tollway policy check` as a user runs it. Unit tests cover the exact thresholds of each warning.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::home::{Home, golden};
use serde_json::Value;

const EVERY_KIND: &str = include_str!("../golden/policy_every_kind.toml");
const WARNINGS: &str = include_str!("../golden/policy_warnings.toml");
const OLD: &str = include_str!("../golden/policy_old.toml");
const NEW: &str = include_str!("../golden/policy_new.toml");
const TUNING: &str = include_str!("../../../../../docs/guide/tuning.md");

/// The text without what depends on the time: times, and line breaks in lines that contain them.
fn steady(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    for line in text.lines() {
        match lines.last_mut() {
            Some(last) if indent(line) == 4 && indent(last) == 4 => {
                last.push(' ');
                last.push_str(line.trim_start());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.iter().map(|line| masked(line) + "\n").collect()
}

/// `Tue 2026-11-17 14:05:00` and `14:05:00` are a TIME.
fn masked(line: &str) -> String {
    let shape = |word: &str| -> String {
        word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).filter(|c| *c != ',').collect()
    };
    let mut words: Vec<&str> = Vec::new();
    for word in line.split(' ') {
        match shape(word).as_str() {
            "0000-00-00" => drop(words.pop()),
            "00:00:00" => words.push("TIME"),
            _ => words.push(word),
        }
    }
    words.join(" ")
}

fn json(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let (exit, answer, beside) = home.run(arguments);
    let value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}{beside}"));
    (exit, value)
}

/// D3, D6: every kind of limit, policy and api in plain sentences; a good file has no warnings, even if strict.
#[test]
fn every_kind_of_limit_is_explained() {
    let home = Home::with_config(EVERY_KIND);
    let (exit, answer, beside) = home.run(&["policy", "check", "--strict"]);
    golden("policy_every_kind.txt", &steady(&answer));
    assert_eq!((exit, beside.as_str()), (0, ""));
    let (exit, answer, beside) = home.run(&["policy", "check", "--quiet"]);
    assert_eq!((exit, answer.as_str(), beside.as_str()), (0, "valid, no warnings\n", ""));
}

/// D6: `policy check` warns by the guide, each warning with advice.
#[test]
fn every_warning_has_advice() {
    let home = Home::with_config(WARNINGS);
    let (exit, answer, beside) = home.run(&["policy", "check"]);
    golden("policy_warnings.txt", &beside);
    assert!(answer.ends_with("valid, with 21 warnings\n"), "{answer}");
    assert_eq!(exit, 0);
}

/// D6: the guide has a section on each warning and note, and on no other.
#[test]
fn the_guide_explains_every_warning() {
    let home = Home::with_config(WARNINGS);
    let (_, answer) = json(&home, &["policy", "check", "--json"]);
    let findings = ["warnings", "notes"].map(|key| answer[key].as_array().unwrap().clone()).concat();
    let mut codes: Vec<&str> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    codes.dedup();
    let explained = TUNING.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let mut explained: Vec<&str> = explained.collect();
    explained.sort_unstable();
    assert_eq!(codes, explained);
}

#[test]
fn strict_fails_on_warnings_and_not_on_notes() {
    let home = Home::with_config("[policies.a]\nlimits = ['9 / second']\nmax_wait = '10ms'");
    let (exit, answer, beside) = home.run(&["policy", "check", "--strict"]);
    assert_eq!(exit, 1);
    assert!(answer.ends_with("valid, with 1 warning\n"), "{answer}");
    assert!(beside.contains("error: 1 warning, and --strict is given"), "{beside}");

    home.write("tollway.toml", "[policies.a]\nlimits = ['9 / day']");
    let (exit, _, beside) = home.run(&["policy", "check", "--strict"]);
    assert_eq!(exit, 0);
    assert!(beside.starts_with("note: [policies.a] requests_per_day resets at midnight UTC\n"), "{beside}");
}

#[test]
fn json_report_is_one_object() {
    let home = Home::with_config(EVERY_KIND);
    let (exit, answer) = json(&home, &["policy", "check", "--json"]);
    assert_eq!((exit, &answer["valid"], &answer["file"]), (0, &Value::Bool(true), &"./tollway.toml".into()));
    assert_eq!(answer["store"], "file:tollway.state");
    let gemini = &answer["policies"][1];
    assert_eq!((&gemini["name"], &gemini["max_wait_ms"]), (&"gemini".into(), &600_000.into()));
    let rpd = &gemini["limits"][2];
    assert_eq!((&rpd["address"], &rpd["amount"]), (&"gemini.rpd".into(), &25.into()));
    assert_eq!(rpd["zone"], "America/Los_Angeles");
    let reset: jiff::Timestamp = rpd["next_reset"].as_str().unwrap().parse().unwrap();
    let midnight = reset.in_tz("America/Los_Angeles").unwrap().time();
    assert_eq!(midnight, jiff::civil::Time::midnight());
    assert_eq!(gemini["limits"][1]["burst"], 500_000);
    assert_eq!(answer["apis"][1]["rate"]["increase_step"], 0.1);
    assert_eq!(answer["apis"][2]["rate"], "auto");
    assert_eq!(answer["warnings"], Value::Array(Vec::new()));
    assert_eq!(answer["notes"], Value::Array(Vec::new()));
}

/// Amount and burst may change while usage is kept; any other change of a limit's identity resets it.
#[test]
fn comparison_shows_which_limits_keep_usage() {
    let home = Home::with_config(NEW);
    home.write("old.toml", OLD);
    let (exit, answer, _) = home.run(&["policy", "check", "--against", "old.toml", "--quiet"]);
    golden("policy_against.txt", &answer);
    assert_eq!(exit, 0);
    let (_, answer) = json(&home, &["policy", "check", "--against", "old.toml", "--json"]);
    let changes = answer["against"]["limits"].as_array().unwrap();
    let first = changes.iter().find(|change| change["address"] == "adobe.requests_per_minute").unwrap();
    assert_eq!((&first["verdict"], &first["what"]), (&"keeps_counting".into(), &"200 -> 250".into()));
    assert_eq!(answer["against"]["store_changed"], Value::Null);
}

#[test]
fn changed_store_resets_every_limit() {
    let home = Home::with_config("[policies.a]\nlimits = ['9 / second']");
    home.write("old.toml", "[store]\nurl = 'memory:'\n[policies.a]\nlimits = ['8 / second']");
    let (_, answer, _) = home.run(&["policy", "check", "--against", "old.toml", "--quiet"]);
    let expected = "compared with old.toml\n  the store changed: memory: -> none\n  \
                    a.requests_per_second  resets: the store changed\n\nvalid, no warnings\n";
    assert_eq!(answer, expected);
}

/// B1: accounts in another slot have other keys. What cannot share one is refused before anything runs, by every command that
/// reads the file, unless such takes are undone.
#[test]
fn slots_of_a_cluster_are_checked() {
    let config = |store: &str, slots: [&str; 2]| {
        let [a, b] =
            slots.map(|slot| if slot.is_empty() { String::new() } else { format!("slot = '{slot}'\n") });
        format!(
            "[store]\nurl = 'redis+cluster://127.0.0.1:1'\n{store}[policies.a]\nlimits = ['9 / minute']\n{a}\
             [policies.b]\nlimits = ['9 / minute']\n{b}[pipelines.p]\nengine = 'sqlite:p.db'\n\
             [[pipelines.p.stages]]\nname = 'only'\nhandler = {{ command = ['true'] }}\n\
             take = {{ a = {{ requests = 1 }}, b = {{ requests = 1 }} }}\n"
        )
    };
    let home = Home::with_config(&config("", ["shop", ""]));
    // `doctor` reports it as a finding.
    for (command, exits) in [(&["policy", "check"][..], 78), (&["serve"], 78), (&["doctor"], 1)] {
        let (exit, answer, beside) = home.run(command);
        assert_eq!(exit, exits, "{command:?}: {answer}{beside}");
        let said = format!("{answer} {beside}").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("policies a and b cannot be taken together"), "{command:?}: {said}");
        assert!(
            said.contains("`slot = \"shop\"` under both [policies.a] and [policies.b]"),
            "{command:?}: {said}"
        );
    }
    for slots in [["shop", "shop"], ["", ""], ["subject-prefix:/", "subject-prefix:/"]] {
        home.write("tollway.toml", &config("", slots));
        let (exit, _, beside) = home.run(&["policy", "check"]);
        assert_eq!(exit, 0, "{slots:?}: {beside}");
    }
    home.write("old.toml", &config("", ["", ""]));
    let (_, answer, _) = home.run(&["policy", "check", "--against", "old.toml", "--quiet"]);
    assert!(answer.contains("a.requests_per_minute  resets: the slot changed"), "{answer}");
    home.write("tollway.toml", &config("across_slots = 'undo'\n", ["shop", ""]));
    let (exit, answer, beside) = home.run(&["policy", "check"]);
    assert_eq!(exit, 0, "{beside}");
    assert!(answer.contains("a denial may cost others a moment"), "{answer}");
    home.write("tollway.toml", "[store]\nurl = 'redis://h'\nacross_slots = 'undo'\n");
    let (exit, _, beside) = home.run(&["policy", "check"]);
    assert!(exit == 78 && beside.contains("only a Cluster has slots"), "{beside}");
}

#[test]
fn invalid_file_is_reported_with_line_and_word() {
    let home = Home::with_config("[policies.a]\nlimits = ['9 / minit']\n");
    let wrong = "error: ./tollway.toml:2:16: \"minit\" is not a period; did you mean \"minute\"?\n  \
                 2 | limits = ['9 / minit']\n    |                ^^^^^\n";
    assert_eq!(home.run(&["policy", "check"]), (78, String::new(), wrong.to_owned()));

    let (exit, answer) = json(&home, &["policy", "check", "--json"]);
    let problem = &answer["problems"][0];
    assert_eq!((exit, &answer["valid"]), (78, &Value::Bool(false)));
    assert_eq!((&problem["file"], &problem["line"]), (&"./tollway.toml".into(), &2.into()));
    assert_eq!((&problem["column"], &problem["word"]), (&16.into(), &"minit".into()));
    assert_eq!(problem["message"], "\"minit\" is not a period");
    assert_eq!(problem["advice"], "did you mean \"minute\"?");

    home.write("new.toml", "");
    let (exit, answer) = json(&home, &["policy", "check", "new.toml", "--against", "tollway.toml", "--json"]);
    assert_eq!((exit, &answer["problems"][0]["file"]), (78, &"tollway.toml".into()));
}

/// Every message names the file that it is about.
#[test]
fn included_files_are_checked_with_the_config() {
    let home = Home::with_config("include = ['b.toml']\n[policies.a]\nlimits = ['9 / minute']\n");
    home.write("b.toml", "[policies.b]\nlimits = ['8 / minute']\n");
    let (exit, said, _) = home.run(&["policy", "check"]);
    assert_eq!(exit, 0);
    assert!(said.starts_with("./tollway.toml: 2 policies, 2 limits in it and 1 included file\n"), "{said}");
    let (_, answer) = json(&home, &["policy", "check", "--json"]);
    assert_eq!(
        (&answer["file"], &answer["includes"]),
        (&"./tollway.toml".into(), &serde_json::json!(["./b.toml"]))
    );
    assert!(home.run(&["doctor"]).1.contains("config ./tollway.toml and 1 file that it includes"));
    assert_eq!(home.run(&["take", "b"]).0, 0);

    home.write("b.toml", "[policies.a]\nlimits = ['8 / minute']\n");
    let (exit, answer) = json(&home, &["policy", "check", "--json"]);
    let problem = &answer["problems"][0];
    assert_eq!((exit, &answer["file"], &problem["file"]), (78, &"./tollway.toml".into(), &"./b.toml".into()));
    let (_, _, beside) = home.run(&["take", "a"]);
    let both =
        "./b.toml:1:11: policies.a is in two files of this config; the other place is ./tollway.toml:2:11";
    assert!(beside.contains(both), "{beside}");
}

/// D3: a factor outside (0, 1] is rejected, with its place.
#[test]
fn invalid_rate_setting_is_rejected() {
    let home = Home::new();
    let settings = "{ initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 1.5 }";
    home.write(
        "api.toml",
        format!("[apis.notion]\nbase_url = 'https://api.notion.com/v1'\nrate = {settings}\n"),
    );
    let (exit, _, beside) = home.run(&["policy", "check", "api.toml"]);
    assert_eq!(exit, 78);
    assert!(beside.starts_with("error: api.toml:3:86: `decrease_factor` must be a number"), "{beside}");
}

#[test]
fn invalid_arguments_are_errors() {
    let home = Home::with_config(EVERY_KIND);
    for (arguments, exit, message) in [
        (&["policy"][..], 2, "Usage: tollway policy"),
        (&["policy", "chekc"], 2, "'chekc'"),
        (&["policy", "check", "nowhere.toml"], 78, "nowhere.toml: there is no such file"),
        (&["policy", "check", "--config", "nowhere.toml"], 78, "nowhere.toml: there is no such file"),
        (&["policy", "check", "a.toml", "--config", "b.toml"], 2, "cannot be used with '--config"),
        (&["policy", "check", "--against"], 2, "--against"),
        (&["policy", "check", "--against", "nowhere.toml"], 78, "nowhere.toml: there is no such file"),
        (&["policy", "check", "a.toml", "b.toml"], 2, "unexpected argument 'b.toml'"),
        (&["policy", "check", "."], 78, "the file cannot be read"),
    ] {
        let (got, answer, beside) = home.run(arguments);
        assert_eq!((got, answer.as_str()), (exit, ""), "{arguments:?}: {beside}");
        assert!(beside.contains(message), "{arguments:?}: {beside}");
    }
    let (exit, _, beside) = Home::new().run(&["policy", "check"]);
    assert_eq!(exit, 78);
    assert!(beside.contains("there is no config file") && beside.contains("try:"), "{beside}");
}

#[test]
fn empty_file_is_valid() {
    let home = Home::with_config("");
    let (exit, answer, beside) = home.run(&["policy", "check", "--strict"]);
    assert_eq!((exit, beside.as_str()), (0, ""));
    assert!(answer.starts_with("./tollway.toml: 0 policies, 0 limits\n"), "{answer}");
}

/// Like `| head`, before the first line is written.
#[test]
fn closed_pipe_is_not_a_failure() {
    let home = Home::with_config(EVERY_KIND);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tollway"));
    let command = command.args(["policy", "check"]).current_dir(home.path()).env("HOME", home.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.env_remove("TOLLWAY_CONFIG").stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

const DESCRIPTORS: &str = r#"
[policies.login]
limits = ["5 requests / minute", "900 tokens / minute"]
[[server.descriptors]]
domain = "edge"
keys = ["path=/login", "remote_address"]
policy = "login"
subject = "address:{remote_address}"
[[server.descriptors]]
domain = "edge"
keys = ["path=/admin*"]
blocked = true
[[server.descriptors]]
domain = "edge"
keys = ["user=monitoring"]
unlimited = true
"#;

#[test]
fn check_explains_descriptor_rules() {
    let home = Home::with_config(DESCRIPTORS);
    let (exit, text, _) = home.run(&["policy", "check"]);
    assert_eq!(exit, 0, "{text}");
    let rule = "  edge: path=/login, remote_address\n    charged to policy login for the subject address:{remote_address}\n";
    assert!(text.contains(rule), "{text}");
    assert!(text.contains("  edge: path=/admin*\n    always denied\n"), "{text}");
    assert!(text.contains("  edge: user=monitoring\n    never limited\n"), "{text}");
    let (_, report) = json(&home, &["policy", "check", "--json"]);
    assert_eq!(report["descriptors"][1]["keys"][0], "path=/admin*");
}

#[test]
fn try_shows_rule_subject_and_limits() {
    let home = Home::with_config(DESCRIPTORS);
    let try_it = |domain: &str, entries: &[&str]| {
        let arguments = [&["policy", "try", "--domain", domain, "--descriptor"], entries].concat();
        let (exit, text, stderr) = home.run(&arguments);
        assert_eq!(exit, 0, "{stderr}");
        (text, json(&home, &[&arguments[..], &["--json"]].concat()).1)
    };
    let (text, answer) = try_it("edge", &["path=/login", "remote_address=203.0.113.7"]);
    let expected = "rule     edge: path=/login, remote_address\npolicy   login\nsubject  address:203.0.113.7\n\
                    limit    5 requests / minute  login.requests_per_minute\n";
    assert_eq!(text, expected);
    assert_eq!((&answer["outcome"], &answer["subject"]), (&"counted".into(), &"address:203.0.113.7".into()));
    assert_eq!(answer["limits"].as_array().unwrap().len(), 1, "hits are requests");
    let (text, answer) = try_it("edge", &["path=/admin/users"]);
    assert!(text.ends_with("always denied\n") && answer["outcome"] == "blocked", "{text}");
    let (text, answer) = try_it("edge", &["user=monitoring"]);
    assert!(text.ends_with("never limited\n") && answer["outcome"] == "unlimited", "{text}");
    let (text, answer) = try_it("edge", &["remote_address=203.0.113.7"]);
    assert!(
        text.starts_with("not limited: no rule has these keys") && answer["rule"] == Value::Null,
        "{text}"
    );
    let (text, _) = try_it("egde", &["user=monitoring"]);
    assert!(text.starts_with("not limited: no rule has the domain \"egde\""), "{text}");
    let (exit, _, stderr) = home.run(&["policy", "try", "--domain", "edge", "--descriptor", "path"]);
    assert!(exit == 2 && stderr.contains("not an entry"), "{stderr}");
}
