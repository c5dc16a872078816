//! Text output fits 80 columns, also with long names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::home::Home;
use crate::simulate::jsonl;

const CONFIG: &str = r#"
[policies.a_policy_with_a_long_name_of_its_own]
limits = [
    "requests_of_the_whole_department: 200000 requests / day from first call",
    "tokens_of_the_whole_department: 250000000 tokens / day bucket burst 500000000",
    "25 requests / day in America/Los_Angeles",
]
when_store_fails = "closed"
[policies.adobe]
limits = ["200 requests / minute"]
[[server.descriptors]]
domain = "edge"
keys = ["path=/a/rather/long/path/of/an/interface", "x-header-of-the-tenant", "remote_address"]
policy = "adobe"
"#;

const LONG: &str = "a_policy_with_a_long_name_of_its_own";

/// Runs the command and checks its text. Errors and warnings on standard error may be longer.
fn fits(home: &Home, arguments: &[&str]) {
    let (_, stdout, stderr) = home.run(arguments);
    assert!(!stdout.is_empty(), "{arguments:?}: {stderr}");
    // A command stays whole, so that it can be copied.
    for line in stdout.lines().filter(|line| !line.trim_start().starts_with("tollway ")) {
        assert!(line.chars().count() <= 80, "{arguments:?}: {} columns\n{stdout}", line.chars().count());
    }
}

#[test]
fn output_fits_80_columns() {
    let home = Home::with_config(CONFIG);
    home.write("traffic.jsonl", jsonl());
    let subject = "a-subject-with-a-name-of-more-than-sixty-letters-as-some-clients-send-them";
    fits(&home, &["take", LONG, "--cost", "tokens=7166000", "--cost", "requests=1"]);
    fits(&home, &["take", "adobe", "-s", subject]);
    fits(&home, &["take", LONG, "-s", subject]);
    fits(&home, &["usage"]);
    fits(&home, &["usage", LONG]);
    fits(&home, &["why", LONG]);
    fits(&home, &["why", LONG, "--cost", "tokens=499999999", "--cost", "requests=25"]);
    fits(&home, &["take", LONG, "--cost", "requests=25", "--max-wait", "1s"]);
    fits(&home, &["limit", "get"]);
    fits(&home, &["limit", "set", "adobe.requests_per_minute", "250"]);
    fits(&home, &["limit", "get", "adobe"]);
    fits(&home, &["policy", "check"]);
    fits(&home, &["policy", "try", "--domain", "edge", "--descriptor", "path=/b"]);
    fits(&home, &["doctor"]);
    let what_ifs = ["200 requests / minute", "250 requests / minute", "300 requests / minute"];
    let what_ifs: Vec<&str> = what_ifs.iter().flat_map(|limit| ["--what-if", *limit]).collect();
    fits(
        &home,
        &[&["plan", "--items", "1000000", "--policy", "adobe", "--calls", "2"], &what_ifs[..]].concat(),
    );
    fits(&home, &["plan", "--items", "1000000", "--policy", LONG, "--cost", "tokens=5000"]);
    fits(&home, &[&["simulate", "traffic.jsonl", "--policy", "adobe"], &what_ifs[..]].concat());
    fits(&home, &["simulate", "traffic.jsonl", "--policy", LONG]);
}
