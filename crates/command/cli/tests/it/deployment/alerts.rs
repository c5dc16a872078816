//! Every alert fires in trouble, stays while trouble comes and goes, does not fire for a moment, and clears: `promtool test
//! rules` over invented series.

use std::fmt::Write;
use std::process::Command;

use super::{file, read};

/// Series have a sample each 30 s.
const SAMPLES_PER_MINUTE: usize = 2;
/// Minutes before the trouble, with it, and after it.
const CALM: usize = 20;
const TROUBLE: usize = 40;
const AFTER: usize = 70;

/// How an alert is tried. Values are patterns that are repeated; `+1` adds to a counter.
struct Trial {
    alert: &'static str,
    series: &'static str,
    calm: &'static [&'static str],
    trouble: &'static [&'static str],
    /// Trouble that comes and goes; none if it does not.
    on_and_off: Option<&'static [&'static str]>,
    /// So many samples of trouble are no alert; 0 if a single one is.
    blip: usize,
    /// Minutes until it fires, and until it has cleared.
    fires: usize,
    clears: usize,
    /// Other series that the condition needs.
    beside: &'static [(&'static str, &'static str)],
}

const fn trial(alert: &'static str, series: &'static str, calm: &'static [&'static str]) -> Trial {
    let (trouble, on_and_off, beside) = (&[] as &[&str], None, &[] as &[(&str, &str)]);
    Trial { alert, series, calm, trouble, on_and_off, blip: 0, fires: 1, clears: 1, beside }
}

const TRIALS: [Trial; 19] = [
    Trial {
        trouble: &["0"],
        on_and_off: Some(&["0", "0", "0", "1"]),
        blip: 2,
        fires: 4,
        clears: 4,
        ..trial("TollwayDown", "up{job=\"tollway\",instance=\"a\"}", &["1"])
    },
    Trial {
        trouble: &["1"],
        on_and_off: Some(&["1", "0"]),
        blip: 1,
        fires: 2,
        clears: 6,
        ..trial("TollwayStoreAway", "tollway_store_degraded{instance=\"a\"}", &["0"])
    },
    Trial {
        trouble: &["1"],
        on_and_off: Some(&["1", "0"]),
        blip: 4,
        fires: 5,
        clears: 9,
        ..trial("TollwayStoreThrottled", "tollway_store_throttled{instance=\"a\"}", &["0"])
    },
    Trial {
        trouble: &["1"],
        on_and_off: Some(&["1", "1", "0"]),
        blip: 4,
        fires: 7,
        clears: 7,
        ..trial("TollwayStoreSlow", "tollway_acquisition_slow{instance=\"a\"}", &["0"])
    },
    Trial {
        trouble: &["0.95"],
        on_and_off: Some(&["0.95", "0.95", "0.95", "0.6"]),
        blip: 4,
        fires: 8,
        clears: 5,
        ..trial("TollwayStoreFilling", "tollway_store_memory_used_ratio{instance=\"a\"}", &["0.5"])
    },
    Trial {
        trouble: &["+1"],
        on_and_off: Some(&["+1", "+0", "+0", "+0", "+0", "+0", "+0", "+0"]),
        clears: 12,
        ..trial("TollwayVendorRefused", "tollway_incidents_total{instance=\"a\",policy=\"notion\"}", &["+0"])
    },
    Trial {
        trouble: &["20"],
        on_and_off: Some(&["20", "20", "20", "20", "20", "20", "20", "20", "20", "0"]),
        blip: 10,
        fires: 14,
        clears: 5,
        ..trial("TollwayApiHeld", "tollway_api_cooldown_seconds{instance=\"a\",api=\"notion\"}", &["0"])
    },
    Trial {
        trouble: &["1.4"],
        on_and_off: Some(&["0.2", "0.8", "1.3", "0.1"]),
        blip: 2,
        fires: 4,
        clears: 16,
        ..trial(
            "TollwayLimitExceeded",
            "tollway_used_ratio{instance=\"a\",policy=\"p\",limit=\"rpm\"}",
            &["0.3"],
        )
    },
    Trial {
        trouble: &["120"],
        on_and_off: Some(&["120", "120", "0"]),
        blip: 6,
        fires: 9,
        clears: 9,
        ..trial("TollwayCallersWait", "tollway_waiting_seconds{instance=\"a\",policy=\"p\"}", &["0"])
    },
    Trial {
        trouble: &["+1"],
        clears: 62,
        ..trial("TollwayNeverOver", "tollway_never_over_violations_total{instance=\"a\"}", &["+0"])
    },
    Trial {
        trouble: &["+1"],
        on_and_off: Some(&["+1", "+0", "+0", "+0", "+0", "+0", "+0", "+0"]),
        clears: 32,
        ..trial("TollwayPermitsLost", "tollway_permits_lost_total{instance=\"a\"}", &["+0"])
    },
    Trial {
        trouble: &["1"],
        blip: 2,
        fires: 3,
        clears: 1,
        ..trial("TollwayConfigWrong", "tollway_config_wrong{instance=\"a\"}", &["0"])
    },
    Trial {
        trouble: &["+1"],
        on_and_off: Some(&["+1", "+0", "+0", "+0", "+0", "+0", "+0", "+0"]),
        clears: 32,
        ..trial(
            "TollwayNotesDropped",
            "tollway_incidents_dropped_total{instance=\"a\",sink=\"webhook\"}",
            &["+0"],
        )
    },
    Trial {
        trouble: &["+9"],
        on_and_off: Some(&["+9", "+0", "+0", "+0", "+0", "+0", "+0", "+0"]),
        clears: 12,
        ..trial("TollwayOverloaded", "tollway_charges_denied_total{instance=\"a\"}", &["+0"])
    },
    Trial {
        trouble: &["+1"],
        on_and_off: Some(&["+2", "+0"]),
        blip: 5,
        fires: 8,
        clears: 13,
        ..trial(
            "TollwayWrongTokens",
            "tollway_wrong_tokens_total{instance=\"a\",door=\"decisions\"}",
            &["+0"],
        )
    },
    Trial {
        trouble: &["0"],
        on_and_off: Some(&["0", "0", "0", "1"]),
        blip: 2,
        fires: 4,
        clears: 4,
        ..trial(
            "TollwayPipelineEngineAway",
            "tollway_pipeline_engine_up{instance=\"a\",pipeline=\"pdf\"}",
            &["1"],
        )
    },
    Trial {
        trouble: &["25"],
        on_and_off: Some(&["25", "24", "12", "30"]),
        blip: 2,
        fires: 3,
        clears: 1,
        ..trial(
            "TollwayDeadLetters",
            "tollway_pipeline_dead_letters{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}",
            &["2"],
        )
    },
    Trial {
        trouble: &["5"],
        blip: 10,
        fires: 16,
        clears: 1,
        beside: &[
            ("tollway_pipeline_calls_total{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}", "+0"),
            ("tollway_pipeline_paused{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}", "0"),
        ],
        ..trial(
            "TollwayPipelineStuck",
            "tollway_pipeline_queue_depth{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}",
            &["0"],
        )
    },
    Trial {
        trouble: &["+2"],
        on_and_off: Some(&["+2", "+2", "+0"]),
        blip: 4,
        fires: 9,
        clears: 9,
        beside: &[("tollway_pipeline_calls_total{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}", "+2")],
        ..trial(
            "TollwayPipelineFails",
            "tollway_pipeline_failure_total{instance=\"a\",pipeline=\"pdf\",stage=\"tag\"}",
            &["+0"],
        )
    },
];

/// Phases of a series as its samples: each pattern for so many samples.
fn samples(phases: &[(&[&str], usize)]) -> String {
    let (mut counter, mut text) = (0u64, String::new());
    for value in phases.iter().flat_map(|(pattern, samples)| pattern.iter().cycle().take(*samples)) {
        match value.strip_prefix('+') {
            Some(more) => {
                counter += more.parse::<u64>().unwrap();
                let _ = write!(text, "{counter} ");
            }
            None => drop(write!(text, "{value} ")),
        }
    }
    text
}

/// One test: the series, and at which minutes the alert fires or does not.
fn add_test(
    text: &mut String,
    trial: &Trial,
    name: &str,
    phases: &[(&[&str], usize)],
    expected: &[(usize, bool)],
) {
    let length = phases.iter().map(|(_, samples)| samples).sum();
    let _ = writeln!(text, "  - name: {} {name}\n    interval: 30s\n    input_series:", trial.alert);
    let beside = trial.beside.iter().map(|(series, value)| (*series, samples(&[(&[*value], length)])));
    for (series, values) in [(trial.series, samples(phases))].into_iter().chain(beside) {
        let _ = writeln!(text, "      - series: '{series}'\n        values: '{}'", values.trim_end());
    }
    text.push_str("    promql_expr_test:\n");
    for (minute, fires) in expected {
        let _ = writeln!(
            text,
            "      - expr: count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}) or vector(0)\n        \
             eval_time: {minute}m\n        exp_samples: [{{labels: '{{}}', value: {}}}]",
            trial.alert,
            u8::from(*fires),
        );
    }
}

fn tests_of(trial: &Trial) -> String {
    let minutes = |minutes: usize| minutes * SAMPLES_PER_MINUTE;
    let mut text = String::new();
    let begun = CALM + trial.fires;
    let over = CALM + TROUBLE;
    let cleared = over + trial.clears;
    let silent = |from: usize, to: usize| (from..to).step_by(4).map(|minute| (minute, false));
    let firing = |from: usize, to: usize| (from..to).map(|minute| (minute, true));
    let expected: Vec<_> =
        silent(1, CALM).chain(firing(begun, over)).chain(silent(cleared, over + AFTER)).collect();
    let (calm, after) = ((trial.calm, minutes(CALM)), (trial.calm, minutes(AFTER)));
    add_test(
        &mut text,
        trial,
        "fires and clears",
        &[calm, (trial.trouble, minutes(TROUBLE)), after],
        &expected,
    );
    if let Some(pattern) = trial.on_and_off {
        // However long it takes, it then fires without a gap.
        let steady = CALM + 20;
        let expected: Vec<_> = firing(steady, over).chain(silent(over + 35, over + AFTER)).collect();
        add_test(&mut text, trial, "does not flap", &[calm, (pattern, minutes(TROUBLE)), after], &expected);
    }
    if trial.blip > 0 {
        let expected: Vec<_> = (1..CALM + 30).map(|minute| (minute, false)).collect();
        let phases = [calm, (trial.trouble, trial.blip), (trial.calm, minutes(40))];
        add_test(&mut text, trial, "is silent for a moment", &phases, &expected);
    }
    text
}

fn names(rules: &str) -> Vec<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// G10, D4: what `promtool test rules` says of each alert.
#[test]
fn each_alert_fires_stays_and_clears() {
    let rules = read("prometheus/alerts.yml");
    let tried: Vec<&str> = TRIALS.iter().map(|trial| trial.alert).collect();
    assert_eq!(names(&rules), tried, "every alert has a trial, in the order of the file");
    let page = read("README.md");
    assert!(tried.iter().all(|alert| page.contains(&format!("| `{alert}` |"))), "the page lists every alert");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts_test.yml");
    let tests: String = TRIALS.iter().map(tests_of).collect();
    let rules = file("prometheus/alerts.yml").canonicalize().unwrap();
    let head = format!("rule_files: ['{}']\nevaluation_interval: 30s\ntests:\n", rules.display());
    std::fs::write(&path, head + &tests).unwrap();
    promtool(&["test", "rules", path.to_str().unwrap()]);
}

/// Prometheus reads the rules and the config that names them, and a sentence has the labels that it shows.
#[test]
fn prometheus_reads_the_rules_and_the_config() {
    promtool(&["check", "rules", file("prometheus/alerts.yml").to_str().unwrap()]);
    promtool(&["check", "config", "--syntax-only", file("prometheus/prometheus.yml").to_str().unwrap()]);
    let rules = read("prometheus/alerts.yml");
    for alert in rules.split("- alert: ").skip(1) {
        let condition = alert.lines().find_map(|line| line.trim().strip_prefix("expr: ")).unwrap();
        for label in alert.split("$labels.").skip(1).map(|rest| rest.split(' ').next().unwrap()) {
            let kept =
                condition.split("by (").skip(1).any(|by| by.split(')').next().unwrap().contains(label));
            assert!(kept || alert.starts_with("TollwayDown"), "{label}: {alert}");
        }
    }
}

/// Of Debian's package `prometheus`, if it is installed, else where `scripts/install-promtool` put it.
fn promtool(arguments: &[&str]) {
    let run = |program: &str| Command::new(program).args(arguments).output();
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tools/promtool");
    let output =
        run("promtool").or_else(|_| run(installed)).expect("no promtool; scripts/install-promtool gets it");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(4_000).collect::<String>();
    assert!(
        output.status.success(),
        "promtool {arguments:?}\n{}\n{}",
        said(&output.stdout),
        said(&output.stderr)
    );
}
