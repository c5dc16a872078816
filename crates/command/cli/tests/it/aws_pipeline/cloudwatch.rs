//! Metrics of `pipeline run` and `serve` in CloudWatch, as lines and as calls.

use std::collections::BTreeMap;

use serde_json::Value;
use tollway_testkit::servers::{CapturedAnswer, CapturingServer};

use super::{PIPELINE, account, enqueue, home};
use crate::home::Home;
use crate::serve::serving::Serving;

const CLOUDWATCH: &str = "[cloudwatch]\nnamespace = \"AdobePDFProcessing\"\ninterval = \"1s\"\n";

/// The sums of all metrics without dimensions in lines of the embedded metric format.
fn sums(output: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in output.lines().filter(|line| line.contains("\"_aws\"")) {
        let line: Value = serde_json::from_str(line).unwrap();
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Namespace"], "AdobePDFProcessing");
        if directive["Dimensions"] != serde_json::json!([[]]) {
            continue;
        }
        for metric in directive["Metrics"].as_array().unwrap() {
            let name = metric["Name"].as_str().unwrap();
            *sums.entry(name.to_owned()).or_default() += line[name].as_u64().unwrap_or(0);
        }
    }
    sums
}

fn run(home: &Home) -> (i32, String, String) {
    home.run(&["pipeline", "run", "--json"])
}

/// P6: the documented metrics of every stage, counted by the process that did the work.
#[test]
fn pipeline_writes_the_documented_metrics() {
    let home = home(&format!("{CLOUDWATCH}{PIPELINE}"));
    enqueue(&home, 1..=20, "");
    enqueue(&home, 21..=22, ", \"fail\": true");
    enqueue(&home, 23..=23, ", \"busy\": \"seen\"");
    let (code, output, log) = run(&home);
    assert_eq!(code, 65, "{log}");
    let first = sums(&output);
    for (name, count) in [
        ("AutotagSuccess", 21),
        ("AutotagFailure", 2),
        ("AutotagRateLimited", 1),
        ("AutotagCalls", 24),
        ("ExtractSuccess", 21),
        ("ExtractCalls", 21),
    ] {
        assert_eq!(first.get(name), Some(&count), "{name}: {first:?}");
    }
    assert_eq!(first.get("ExtractFailure"), None, "what did not happen is not sent");
    assert!(first.get("AutotagDeadLetters").is_some_and(|dead| *dead >= 2), "{first:?}");
    assert!(first.contains_key("ExtractQueueDepth"), "{first:?}");
    assert!(
        output.contains("\"RateLimiterTokensAcquired\"") && output.contains("\"Limit\":\"RPM\""),
        "{output}"
    );
    // The engine knows the work of both processes; each sends its own.
    enqueue(&home, 31..=32, "");
    let (_, output, _) = run(&home);
    assert_eq!(sums(&output).get("AutotagSuccess"), Some(&2), "{output}");
}

/// The same by calls, which need the SDK.
#[test]
fn pipeline_calls_put_metric_data() {
    let server = CapturingServer::start(|_| {
        CapturedAnswer::new(
            "200 OK\r\nContent-Type: application/cbor\r\nsmithy-protocol: rpc-v2-cbor",
            [0xa0],
        )
    });
    let home = home(&format!("{CLOUDWATCH}send = \"put\"\n{PIPELINE}"));
    enqueue(&home, 1..=3, "");
    let output = home.tollway(&["pipeline", "run"]).envs(account(&server.endpoint())).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let sent: Vec<u8> = server.requests().into_iter().flat_map(|request| request.body).collect();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("AdobePDFProcessing") && sent.contains("AutotagSuccess"), "{sent}");
    let region = home
        .tollway(&["pipeline", "run"])
        .env_remove("AWS_REGION")
        .env_remove("AWS_DEFAULT_REGION")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output();
    let region = String::from_utf8(region.unwrap().stderr).unwrap();
    assert!(region.contains("[cloudwatch] needs a region"), "{region}");
}

/// G10: a server sends what its limiter counts.
#[test]
fn server_writes_the_metrics_of_its_limiter() {
    let text =
        "[policies.gemini]\nlimits = [\"RPM: 5 requests / minute\"]\n[server]\nlisten = \"127.0.0.1:0\"\n";
    let home = home(&format!("{CLOUDWATCH}{text}"));
    let mut serving = Serving::start(&home, &[]);
    serving.ask("decisions", "POST /v1/take", "", r#"{"policy": "gemini"}"#);
    loop {
        let line = serving.next_line();
        if line.contains("\"RateLimiterTokensAcquired\":1") {
            assert!(line.contains("\"Policy\":\"gemini\"") && line.contains("\"Limit\":\"RPM\""), "{line}");
            break;
        }
    }
    serving.stop();
}

#[test]
fn stages_of_one_name_are_refused() {
    let other = "[pipelines.other]\nengine = \"sqlite:other.db\"\n[[pipelines.other.stages]]\nname = \"AUTOTAG\"\n\
                 handler = { command = [\"true\"] }\n";
    let text = format!("{CLOUDWATCH}{PIPELINE}{}", other.replace("AUTOTAG", "autotag"));
    let (code, _, error) = home(&text).run(&["policy", "check"]);
    assert_eq!(code, 78, "{error}");
    assert!(error.contains("have one name in CloudWatch, Autotag"), "{error}");
    let (code, _, error) = home(&text.replace(CLOUDWATCH, "")).run(&["policy", "check"]);
    assert_eq!(code, 0, "only CloudWatch cannot tell them apart: {error}");
}
