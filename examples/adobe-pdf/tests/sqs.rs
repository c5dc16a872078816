//! Runs the example with its jobs in SQS, which an emulator stands in for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use tollway_testkit::servers::Ministack;

/// What the vendor allows in a minute, and how many seconds a minute has here.
const LIMIT: usize = 200;
const MINUTE: u64 = 3;

/// P1, P8: one line of the config moves the example to SQS: queues with the documented names, both stages in one quota, and one
/// upload for each PDF after all of its chunks.
#[test]
fn one_line_moves_the_jobs_to_sqs() {
    let server = Ministack::start();
    let folder = tempfile::tempdir().unwrap();
    let engine = format!(
        "sqs:?ledger=tollway-jobs&region=us-east-1&endpoint={}&access=test:test&create=yes",
        server.endpoint()
    );
    let mut example = Command::new(env!("CARGO_BIN_EXE_adobe-pdf"));
    example.args(["--pdfs", "30", "--minute", &format!("{MINUTE}s"), "--engine", &engine, "--folder"]);
    let output = example.arg(folder.path()).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("PDFs     30: 30 finished"), "{report}");
    assert!(report.contains("0 refused by the vendor"), "{report}");
    assert!(report.contains("0 failed tries, 0 crashes, 0 refusals, 0 dead letters"), "{report}");
    let log = std::fs::read_to_string(folder.path().join("vendor.jsonl")).unwrap();
    let mut windows: BTreeMap<u64, usize> = BTreeMap::new();
    for line in log.lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        *windows.entry(call["at"].as_u64().unwrap() / (MINUTE * 1_000_000)).or_default() += 1;
    }
    assert!(windows.values().all(|calls| *calls <= LIMIT), "{windows:?}");
    for queue in ["adobe-autotag-queue", "adobe-extract-queue", "adobe-autotag-dlq", "adobe-extract-dlq"] {
        let url = server.ask("AmazonSQS.GetQueueUrl", &serde_json::json!({ "QueueName": queue }));
        assert!(url["QueueUrl"].is_string(), "{queue}: {url}");
    }
}
