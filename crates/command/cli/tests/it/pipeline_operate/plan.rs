//! `pipeline plan`: the document's arithmetic, for a pipeline of the config.

use super::lab::{CONFIG, Lab, job};
use crate::home::{golden, mask_times};

/// A7: 200 calls a minute, two calls an item: 100 a minute, 6,000 an hour, 144,000 a day, 6.94 days for a million; and the
/// document's 50 + 50 workers alone would make 600 calls, not 200.
#[test]
fn documents_table() {
    let lab = Lab::with_config(&CONFIG.replace("after = [\"autotag\", \"extract\"]", "retention = '30d'"));
    let (exit, stdout, stderr) = lab.run(&["plan", "--items", "1M", "--latency", "10s"]);
    assert_eq!(exit, 78);
    golden("pipeline_plan.txt", &mask_times(&stdout));
    assert!(stdout.lines().all(|line| line.chars().count() <= 80), "{stdout}");
    assert!(
        stderr.contains("retention of autotag and extract is 7 d, and the backlog may take 7.64 days"),
        "{stderr}"
    );
    assert!(stderr.contains("set retention = \"8d\""), "{stderr}");
    let config = CONFIG.replace("concurrency = 50", "concurrency = 50\nretention = '8d'");
    let lab = Lab::with_config(&config.replace("after =", "retention = '8d'\nafter ="));
    let json = lab.json(&["plan", "--items", "1M", "--latency", "10s"]);
    assert_eq!((&json["items_per_minute"], &json["items_per_day"]), (&100.0.into(), &144_000.0.into()));
    assert_eq!(json["policies"][0]["calls_per_minute_without_limit"], 600.0);
    assert_eq!(
        (&json["stages"][0]["workers_enough"], &json["retention"]["long_enough"]),
        (&17.into(), &true.into())
    );
}

/// P5: too few workers are the bottleneck, and it says how many are enough.
#[test]
fn too_few_workers_are_the_bottleneck() {
    let lab = Lab::new();
    let text = lab.ok(&["plan", "--items", "1000", "--latency", "60s", "--latency", "upload=100ms"]);
    assert!(text.contains("items a minute  50\n"), "{text}");
    assert!(text.contains("bottleneck      concurrency of autotag: 50 jobs at a time\n"), "{text}");
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains("100 for autotag, 100 for extract, 1 for upload"), "{text}");
    assert!(squeezed.contains("`concurrency` is lower: raise autotag to 100, extract to 100"), "{text}");
    assert!(
        squeezed
            .contains("50 + 50 workers at 1 min a call make at most 100 calls a minute; adobe allows 200"),
        "{text}"
    );
    assert_eq!(lab.run(&["plan", "--items", "9", "--latency", "extrakt=1s"]).0, 66);
    assert_eq!(lab.run(&["plan", "--items", "9", "--latency", "fast"]).0, 2);
}

/// The jobs that are left are counted where they are; data is measured.
#[test]
fn jobs_that_are_left_are_the_default() {
    let lab = Lab::new();
    let (exit, _, error) = lab.run(&["plan"]);
    assert_eq!(exit, 2);
    assert!(error.contains("--items 1M"), "{error}");
    let jobs = lab.running();
    jobs.add((0..800).map(|n| job("autotag", &n.to_string())).collect());
    jobs.add((0..400).map(|n| job("extract", &n.to_string())).collect());
    jobs.kill(job("extract", "dead"), "extract", "x", "");
    let json = lab.json(&["plan"]);
    let passed: Vec<_> = json["stages"].as_array().unwrap().iter().map(|stage| &stage["jobs"]).collect();
    assert_eq!((&json["items"], passed), (&1_200.into(), vec![&800.into(), &1_200.into(), &1_200.into()]));
    assert_eq!((&json["disk"]["measured"], &json["disk"]["data_bytes"]), (&true.into(), &18.into()));
    // 2,000 calls at 200 a minute: 9 full minutes after the first 200.
    assert!((480.0..=550.0).contains(&json["seconds"]["least"].as_f64().unwrap()), "{json}");
    // A changed concurrency counts.
    lab.ok(&["concurrency", "upload", "1"]);
    let json = lab.json(&["plan", "--latency", "upload=1m"]);
    assert_eq!(json["bottleneck"], "concurrency of upload: 1 job at a time");
}
