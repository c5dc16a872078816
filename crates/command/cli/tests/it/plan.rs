//! `tollway plan`: the documented tables, the finish time of each kind of limit, and invalid plans.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::home::{Home, golden};
use serde_json::Value;

/// Sunday, twenty seconds into a minute.
const START: &str = "2026-11-15T05:33:20Z";

/// The plan as JSON, with these arguments and a fixed start.
fn json(arguments: &[&str]) -> Value {
    json_from(START, arguments)
}

fn json_from(start: &str, arguments: &[&str]) -> Value {
    let all = [&["plan", "--json", "--start", start], arguments].concat();
    let (exit, answer, said) = Home::new().run(&all);
    assert_eq!((exit, said.as_str()), (0, ""), "{arguments:?}");
    serde_json::from_str(&answer).unwrap()
}

/// The only plan of the output.
fn plan(arguments: &[&str]) -> Value {
    json(arguments)["plans"][0].clone()
}

/// The finish time of this many items with one call each.
fn finish(start: &str, limit: &str, items: &str) -> String {
    let plan = &json_from(start, &["--limit", limit, "--items", items])["plans"][0];
    plan["finish"].as_str().unwrap_or("never").to_owned()
}

fn text(arguments: &[&str]) -> (String, String) {
    let (exit, answer, said) = Home::new().run(&[&["plan", "--start", START], arguments].concat());
    assert_eq!(exit, 0, "{said}");
    (answer, said)
}

/// The exit code and standard error of an invalid plan.
fn refused(arguments: &[&str]) -> (i32, String) {
    let (exit, answer, said) = Home::new().run(&[&["plan"], arguments].concat());
    assert_eq!(answer, "", "{arguments:?} has an answer");
    (exit, said)
}

/// A7, the documented tables: 200 requests a minute, 2 calls an item: 100 a minute, 6,000 an hour, 144,000 a day, a million
/// in 6 d 23 h; 250 a minute: 125 and 7,500.
#[test]
fn documented_tables_are_reproduced() {
    let (answer, said) = text(&[
        "--items",
        "1M",
        "--calls",
        "2",
        "--limit",
        "200 requests / minute",
        "--what-if",
        "250 requests / minute",
    ]);
    golden("plan_tables.txt", &answer);
    golden("plan_tables_said.txt", &said);
    let row = |label: &str| {
        let line = answer.lines().find(|line| line.starts_with(label)).unwrap().trim_start_matches(label);
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(row("items a minute"), ["100", "125"]);
    assert_eq!(row("items an hour"), ["6,000", "7,500"]);
    assert_eq!(row("items a day"), ["144,000", "180,000"]);
    assert_eq!(row("time"), ["6 d 23 h", "5 d 14 h"]);
}

/// A7: several limits, the bottleneck, the slack of the others, and workers, as text and as JSON.
#[test]
fn several_limits_are_listed_separately() {
    let arguments = [
        "--items",
        "20k",
        "--limit",
        "5 requests / minute bucket",
        "--limit",
        "20k tokens / minute bucket",
        "--limit",
        "rpd: 5000 requests / day in America/Los_Angeles",
        "--limit",
        "10 concurrent",
        "--cost",
        "tokens=3_750",
        "--latency",
        "1.5s",
        "--retention",
        "2d",
    ];
    let (answer, said) = text(&arguments);
    golden("plan_limits.txt", &answer);
    golden("plan_limits_said.txt", &said);
    let (_, answer, _) =
        Home::new().run(&[&["plan", "--quiet", "--json", "--start", START], &arguments[..]].concat());
    golden("plan_limits.json", &answer);
}

/// A7: the limit with the lowest rate is the bottleneck, whatever its position and unit.
#[test]
fn the_slowest_limit_is_the_bottleneck() {
    let bottleneck = |limits: [&str; 2], tokens: &str| {
        let plan = plan(&["--limit", limits[0], "--limit", limits[1], "--cost", tokens]);
        let share = |index: usize| plan["limits"][index]["share"].as_f64().unwrap();
        (plan["bottleneck"].as_str().unwrap().to_owned(), share(0), share(1))
    };
    let limits = ["60 requests / minute", "60k tokens / minute bucket"];
    let of = |name: &str, one, two| (name.to_owned(), one, two);
    assert_eq!(bottleneck(limits, "tokens=500"), of("requests_per_minute", 1.0, 0.5));
    assert_eq!(bottleneck(limits, "tokens=4000"), of("tokens_per_minute", 0.25, 1.0));
    assert_eq!(bottleneck([limits[1], limits[0]], "tokens=4000"), of("tokens_per_minute", 1.0, 0.25));
}

/// A7: limits that delay each other are computed together: 5 before midnight, then 5 and 3 of the day's 8, and the last 7 on
/// the following day, in its second minute.
#[test]
fn combined_limits_take_longer_than_each_alone() {
    let limits = ["--limit", "5 requests / minute", "--limit", "8 requests / day", "--items"];
    let answer =
        |items| json_from("2026-11-14T23:59:30Z", &[&limits[..], &[items]].concat())["plans"][0].clone();
    let few = answer("20");
    assert_eq!((&few["finish"], &few["exact"]), (&"2026-11-16T00:01:00Z".into(), &true.into()));
    assert_eq!(few["limits"][1]["last_grant"], "2026-11-16T00:00:00Z", "alone");

    // Slots are free after each call's latency: two at a time, but three a minute.
    let slots =
        ["--limit", "2 concurrent", "--limit", "3 requests / minute", "--latency", "10s", "--items", "6"];
    assert_eq!(plan(&slots)["finish"], "2026-11-15T05:34:20Z");

    // Too many to decide one by one.
    let many = ["--limit", "5k requests / minute", "--limit", "8k requests / day", "--items", "3M"];
    let slowest = plan(&many);
    assert_eq!((&slowest["finish"], &slowest["exact"]), (&"2027-11-24T00:00:00Z".into(), &false.into()));
    assert!(text(&many).1.contains("the time is that of the slowest limit alone"));
}

/// A7: a call is granted whole, so a window of 250,000 tokens a minute grants 66 calls of 3,750, not 66.67.
#[test]
fn window_remainder_smaller_than_a_call_is_unused() {
    let per_minute = |limit| plan(&["--limit", limit, "--cost", "tokens=3750"])["items_per_minute"].clone();
    assert_eq!(per_minute("250k tokens / minute"), 66);
    assert_eq!(per_minute("250k tokens / minute bucket"), 66.666_666);
}

/// A7: the time of the last grant for every algorithm, computed by hand.
#[test]
fn finish_time_is_right_for_each_algorithm() {
    for (limit, items, expected) in [
        // 200 in this minute, 200 from 05:34 on, the last at 05:35.
        ("200 requests / minute", "200", "2026-11-15T05:33:20Z"),
        ("200 requests / minute", "201", "2026-11-15T05:34:00Z"),
        ("200 requests / minute", "401", "2026-11-15T05:35:00Z"),
        ("10 requests / hour from first call", "11", "2026-11-15T06:33:20Z"),
        ("10 requests / hour from first call", "20", "2026-11-15T06:33:20Z"),
        // 5 at once, then one each second.
        ("60 requests / minute bucket burst 5", "5", "2026-11-15T05:33:20Z"),
        ("60 requests / minute bucket burst 5", "65", "2026-11-15T05:34:20Z"),
        ("4 requests / second paced", "5", "2026-11-15T05:33:21Z"),
        // 10 at once; of those 10, nine tenths still count at 05:34:06, and half of them at 05:34:30.
        ("10 requests / minute sliding", "10", "2026-11-15T05:33:20Z"),
        ("10 requests / minute sliding", "11", "2026-11-15T05:34:06Z"),
        ("10 requests / minute sliding", "15", "2026-11-15T05:34:30Z"),
        // The tenth of that minute fits only when the next has begun.
        ("10 requests / minute sliding", "20", "2026-11-15T05:35:00Z"),
        ("1 requests / week", "2", "2026-11-16T00:00:00Z"),
        ("1 requests / month", "3", "2027-01-01T00:00:00Z"),
        ("1 requests / month", "1203", "2127-01-01T00:00:00Z"),
    ] {
        assert_eq!(finish(START, limit, items), expected, "{items} items under {limit}");
    }
}

/// A7: slots are free again after a call's latency, and the last call takes its latency, too.
#[test]
fn slots_are_included_with_a_latency() {
    let plan = plan(&["--limit", "10 concurrent", "--items", "25", "--latency", "2s"]);
    assert_eq!(plan["items_per_minute"], 300);
    assert_eq!(plan["limits"][0]["last_grant"], "2026-11-15T05:33:24Z");
    assert_eq!(plan["finish"], "2026-11-15T05:33:26Z");
    assert_eq!(plan["duration_ms"], 6_000);
    assert_eq!((&plan["workers"]["enough"], &plan["workers"]["most_useful"]), (&10.into(), &10.into()));
}

/// A7, B6: calendar days follow their zone: the last item is granted at a local midnight, after days of 25 and 23 hours.
#[test]
fn days_follow_their_zone() {
    let limit = "25 requests / day in America/Los_Angeles";
    let (autumn, spring) = ("2026-11-01T00:00:00-07:00", "2026-03-08T00:00:00-08:00");
    assert_eq!(finish(autumn, limit, "25"), "2026-11-01T07:00:00Z");
    assert_eq!(finish(autumn, limit, "26"), "2026-11-02T08:00:00Z");
    assert_eq!(finish(spring, limit, "26"), "2026-03-09T07:00:00Z");
    assert_eq!(finish("2026-10-31T22:00:00-07:00", limit, "51"), "2026-11-02T08:00:00Z");
    // The last of 40,000 days (1,000,000 / 25), computed without a loop over days.
    assert_eq!(finish(autumn, limit, "1M"), "2136-05-07T07:00:00Z");
}

/// A7: ceil(calls a second x latency) workers keep up; a window's whole amount is the most that can be busy.
#[test]
fn workers_follow_from_the_latency() {
    let workers = |limit, latency| {
        let workers = plan(&["--limit", limit, "--latency", latency])["workers"].clone();
        (workers["enough"].as_u64().unwrap(), workers["most_useful"].as_u64().unwrap())
    };
    assert_eq!(workers("200 requests / minute", "1.5s"), (5, 200));
    assert_eq!(workers("200 requests / minute", "1501ms"), (6, 200));
    assert_eq!(workers("200 requests / minute", "90s"), (300, 400));
    assert_eq!(workers("4 requests / second paced", "500ms"), (2, 2));
    assert_eq!(workers("4 requests / second paced", "501ms"), (3, 3));
    assert_eq!(workers("60 requests / minute bucket burst 5", "1s"), (1, 5));
    let few = plan(&["--limit", "200 requests / minute", "--latency", "90s", "--items", "3"]);
    assert_eq!((&few["workers"]["enough"], &few["workers"]["most_useful"]), (&3.into(), &3.into()));
}

/// A7: a what-if replaces the limit of its name, or the only one; each has its own numbers.
#[test]
fn what_if_replaces_one_limit() {
    let answer = json(&["--limit", "200 / minute", "--what-if", "9000 / hour", "--what-if", "500 / minute"]);
    let per_minute: Vec<&Value> =
        answer["plans"].as_array().unwrap().iter().map(|plan| &plan["items_per_minute"]).collect();
    assert_eq!(per_minute, [200, 150, 500]);

    let both = ["--limit", "200 / minute", "--limit", "rpd: 1440 / day"];
    let answer = json(&[&both[..], &["--what-if", "rpd: 2880 / day"]].concat());
    let of = |index: usize, key: &str| answer["plans"][index][key].clone();
    assert_eq!((of(0, "items_per_minute"), of(1, "items_per_minute")), (1.into(), 2.into()));
    assert_eq!(of(1, "limits").as_array().unwrap().len(), 2);
    assert_eq!((of(0, "what_if"), of(1, "what_if")), (Value::Null, "rpd: 2880 / day".into()));

    let (exit, said) = refused(&[&both[..], &["--what-if", "9000 / hour"]].concat());
    assert_eq!(exit, 2);
    assert!(said.contains("which limit would it replace?"), "{said}");
    assert!(said.contains("the limits are requests_per_minute, rpd"), "{said}");
}

/// A7: without items there are only rates.
#[test]
fn without_items_there_are_only_rates() {
    let (answer, said) = text(&["--limit", "7 requests / hour", "--calls", "3"]);
    golden("plan_rates.txt", &answer);
    assert_eq!(said, "");
    let plan = plan(&["--limit", "7 requests / hour"]);
    assert_eq!((&plan["finish"], &plan["duration_ms"]), (&Value::Null, &Value::Null));
}

/// A7: warns if jobs are kept for less time than the backlog takes.
#[test]
fn warns_if_retention_is_too_short() {
    let arguments = ["--limit", "100 / hour from first call", "--items", "1k", "--retention"];
    let (_, said) = text(&[&arguments[..], &["8h"]].concat());
    assert!(said.contains("jobs are kept for 8 h, but the backlog takes 9 h"), "{said}");
    let (_, said) = text(&[&arguments[..], &["9h"]].concat());
    assert!(!said.contains("warning"), "{said}");
    let within = |items| {
        let (_, answer, _) = Home::new().run(&[
            "plan",
            "--json",
            "--quiet",
            "--limit",
            "100 / hour from first call",
            "--items",
            items,
            "--retention",
            "9h",
        ]);
        serde_json::from_str::<Value>(&answer).unwrap()["plans"][0]["within_retention"].clone()
    };
    assert_eq!((within("1000"), within("1001")), (true.into(), false.into()));
}

/// A7: another limit than the long-run bottleneck may delay a small backlog, and the output says so.
#[test]
fn small_backlog_names_its_slowest_limit() {
    let limits = ["--limit", "5 requests / minute", "--limit", "25 requests / day"];
    let longest = |items: &str| plan(&[&limits[..], &["--items", items]].concat())["takes_longest"].clone();
    assert_eq!((longest("20"), longest("2000")), ("requests_per_minute".into(), "requests_per_day".into()));
    let (_, said) = text(&[&limits[..], &["--items", "20"]].concat());
    assert!(
        said.contains(
            "requests_per_minute alone takes longest for this backlog; in the long run it is requests_per_day"
        ),
        "{said}"
    );
}

/// B7: the limits of a policy in the config, with its edge.
#[test]
fn plans_a_policy_of_the_config() {
    let home = Home::with_config(
        "[policies.adobe]\nlimits = [\"200 requests / minute\"]\nedge = \"250ms\"\n\
         [policies.trial]\nlimits = [\"1 requests / minute\"]\nshadow = true\n",
    );
    let run =
        |arguments: &[&str]| home.run(&[&["plan", "--start", START, "--items", "201"], arguments].concat());
    let (exit, answer, _) = run(&["--policy", "adobe", "--json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(exit, 0);
    assert_eq!(answer["plans"][0]["finish"], "2026-11-15T05:34:00.25Z");

    let (_, _, said) = run(&["--policy", "trial"]);
    assert!(said.contains("policy trial is a shadow"), "{said}");

    let (exit, _, said) = run(&["--policy", "adoby"]);
    assert_eq!(exit, 66);
    assert!(
        said.contains("there is no policy \"adoby\"") && said.contains("did you mean \"adobe\"?"),
        "{said}"
    );
    let (exit, _, said) = run(&["--policy", "zzz"]);
    assert_eq!(exit, 66);
    assert!(said.contains("the config has adobe, trial"), "{said}");
    assert_eq!(refused(&["--policy", "adobe"]).0, 78, "there is no config");
}

/// A plan reads only the config file, up to its size limit.
#[test]
fn oversized_config_is_rejected() {
    let home = Home::new();
    let mut plan = home.tollway(&["plan", "--config", "/dev/zero", "--policy", "adobe"]);
    let output = plan.timeout(std::time::Duration::from_secs(10)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("33554432"), "{said}");
}

/// The finish is in local time in text, and in UTC in JSON.
#[test]
fn the_finish_is_in_local_time() {
    let arguments = ["plan", "--start", START, "--limit", "1 / minute", "--items", "2"];
    let output = Home::new().tollway(&arguments).env("TZ", "America/New_York").output().unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains("Sun 2026-11-15 00:34:00 EST"), "{answer}");
}

/// A7: huge numbers get an immediate answer under every kind of limit.
#[test]
fn huge_backlogs_do_not_overflow() {
    for limit in [
        "1 requests / ms",
        "1 requests / day in Asia/Tokyo",
        "1 requests / week",
        "1 requests / month",
        "1 requests / hour from first call",
        "1 requests / minute sliding",
        "2 requests / minute sliding",
        "1 requests / day bucket",
        "2 requests / day bucket",
        "1 requests / second paced",
        "1 concurrent",
    ] {
        for items in ["1000000000G", "18446744073709551615"] {
            let arguments = ["--limit", limit, "--items", items, "--calls", "1G", "--latency", "1s"];
            let (answer, _) = text(&arguments);
            assert!(answer.contains("more than 228 years") && answer.contains("after 2255"), "{answer}");
            let plan = plan(&arguments);
            assert_eq!((&plan["finish"], &plan["beyond_2255"]), (&Value::Null, &true.into()));
        }
    }
    let (answer, _) = text(&["--limit", "1000000G tokens / ms", "--cost", "tokens=1"]);
    assert!(answer.contains("over 18,446,744,073,709,551,615"), "{answer}");
}

/// Invalid input: the message names the problem and the option, with exit code 2.
#[test]
fn invalid_arguments_are_reported() {
    let minute = "200 requests / minute";
    for (arguments, expected) in [
        (vec!["--limit", minute, "--items", "0"], "write 1 or more"),
        (
            vec!["--limit", minute, "--items", "-5"],
            "invalid value '-5' for '--items <N>': not a whole number",
        ),
        (vec!["--limit", minute, "--items", "many"], "not a whole number"),
        (vec!["--limit", minute, "--items", "1.5M"], "not a whole number"),
        (vec!["--limit", minute, "--items", "99999999999999999999"], "more than the largest number"),
        (vec!["--limit", minute, "--calls", "0"], "an item without calls"),
        (vec!["--limit", minute, "--calls", "-1"], "not a whole number"),
        (vec!["--limit", minute, "--calls", "2G"], "more than the maximum of 1000000000 calls"),
        (vec!["--limit", minute, "--cost", "tokens"], "write it like tokens=3750"),
        (vec!["--limit", minute, "--cost", "=5"], "the unit is missing"),
        (vec!["--limit", minute, "--cost", "requests=-5"], "not a whole number"),
        (vec!["--limit", minute, "--cost", "requests=9000000G"], "more than the largest amount"),
        (vec!["--limit", minute, "--cost", "requsts=1"], "did you mean \"requests\"?"),
        (vec!["--limit", minute, "--cost", "tokens=1"], "no limit counts \"tokens\""),
        (vec!["--limit", minute, "--cost", "requests=1", "--cost", "requests=2"], "gives requests twice"),
        (vec!["--limit", minute, "--cost", "requests=201"], "a call of 201 requests can never be granted"),
        (vec!["--limit", "3 / second paced", "--cost", "requests=2"], "grants at most 1 at once"),
        (vec!["--limit", minute, "--cost", "requests=0"], "nothing limits them"),
        (vec!["--limit", "250k tokens / minute"], "give the cost of a call, e.g. --cost tokens=100"),
        (vec!["--limit", "10 concurrent"], "give the duration of a call"),
        (
            vec!["--limit", minute, "--what-if", "10 pages / minute", "--cost", "requests=1"],
            "no limit counts",
        ),
        (vec!["--limit", minute, "--latency", "0s"], "shorter than 1ms"),
        (vec!["--limit", minute, "--latency=-1s"], "not a duration"),
        (vec!["--limit", minute, "--latency", "soon"], "not a duration"),
        (vec!["--limit", minute, "--latency", "367d"], "longer than 366d"),
        (vec!["--limit", minute, "--start", "tomorrow"], "write it like 2026-11-15T08:00:00+01:00"),
        (vec!["--limit", minute, "--start", "2026-11-15"], "not a time with an offset"),
        (vec!["--limit", minute, "--start", "1969-12-31T00:00:00Z"], "before 1970"),
        (vec!["--limit", minute, "--start", "2300-01-01T00:00:00Z"], "after 2255"),
        (vec!["--limit", minute, "--items", "5", "--retention", "0d"], "write a retention above zero"),
        (vec!["--limit", minute, "--items", "5", "--retention", "long"], "not a duration"),
        (vec!["--limit", minute, "--retention", "7d"], "--items <N>"),
        (vec!["--limit", minute, "--policy", "adobe"], "cannot be used with '--policy <NAME>'"),
        (vec!["--limit", minute, "--limit", "9 / minute"], "two limits named requests_per_minute"),
        (vec!["--items", "5"], "<--limit <LIMIT>|--policy <NAME>>"),
    ] {
        let (exit, said) = refused(&arguments);
        assert_eq!(exit, 2, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let many: Vec<&str> = ["--limit", minute].into_iter().chain(["--what-if", minute].repeat(4)).collect();
    let (exit, said) = refused(&many);
    assert_eq!(exit, 2);
    assert!(said.contains("--what-if is given 4 times") && said.contains("at most 3"), "{said}");
}

/// B7: a text that is not a limit is pointed at, as in the config.
#[test]
fn error_points_at_the_wrong_word_of_a_limit() {
    let expected = "error: --limit: \"minit\" is not a period; did you mean \"minute\"?\n  200 requests / minit\n                 ^^^^^\n";
    assert_eq!(refused(&["--limit", "200 requests / minit"]), (2, expected.to_owned()));
    let (exit, said) = refused(&["--limit", "200 / minute", "--what-if", "lots"]);
    assert_eq!((exit, said.lines().nth(2)), (2, Some("  ^^^^")), "{said}");
    assert!(said.starts_with("error: --what-if: \"lots\" is not an amount"), "{said}");
    let (exit, said) = refused(&["--json", "--limit", "200 / minit"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((exit, said["error"]["exit"].as_u64()), (2, Some(2)));
}

/// No colour in a pipe, colour where asked for; and `--quiet` says nothing beside the answer.
#[test]
fn colours_and_remarks_only_in_text_output() {
    let arguments = ["--limit", "200 / minute", "--items", "1M", "--retention", "1h"];
    let (plain, said) = text(&arguments);
    assert!(!plain.contains('\u{1b}') && said.contains("assumes: nothing used yet"), "{said}");
    let (coloured, _) = text(&[&arguments[..], &["--color", "always"]].concat());
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(text(&[&arguments[..], &["--quiet"]].concat()), (plain, String::new()));
}

/// A7: the guide shows the command's real output.
#[test]
fn guide_examples_match_the_output() {
    let guide = include_str!("../../../../../docs/guide/plan.md");
    let examples: Vec<&str> =
        guide.split("```console\n$ ").skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect();
    assert_eq!(examples.len(), 5);
    for example in examples {
        let (command, shown) =
            example.replace("\\\n", " ").split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        // Quoted words may contain spaces.
        let words = command.split('"').enumerate().flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let words: Vec<&str> = words.skip(1).collect();
        let (exit, answer, said) = Home::new().run(&words);
        assert_eq!((exit, answer.trim_end()), (0, shown.as_str()), "{command}\n{answer}");
        let warned = said.lines().find_map(|line| line.strip_prefix("warning: 25 requests / hour: "));
        assert!(warned.is_none_or(|warning| guide.contains(warning)), "{said}");
    }
}
