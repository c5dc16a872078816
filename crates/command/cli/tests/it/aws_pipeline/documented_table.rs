//! A pipeline whose stages count in the counter table of a running system.

use serde_json::Value;
use tollway_testkit::servers::DynamoServer;

use super::{PIPELINE, enqueue, home};

const TABLE: &str = "AdobeRateLimiter";

/// P10, P3: both stages draw on one budget. The documents give each stage an `api_type` of its own, which would be two.
#[test]
fn both_stages_share_one_budget_of_the_documented_table() {
    let tables = DynamoServer::start();
    let url = format!(
        "dynamodb://test:test@{TABLE}?layout=api-minute&deadline=20s&region=eu-west-1&endpoint=http://{}",
        tables.addr()
    );
    let config = PIPELINE
        .replace("file:state", &url)
        .replace("RPM: 100k requests / minute", "200 requests / minute")
        .replace("engine = \"sqlite:pdf.db\"", "engine = \"sqlite:pdf.db\"\nsubject = \"adobe\"")
        // The documented names of queues are provisioned, too, and this is about the table.
        .replace("queue = \"adobe-", "# queue = \"adobe-")
        .replace("dead_letter_# queue", "# dead_letter_queue");
    let home = home(&config);
    let (code, _, error) = home.run(&["provision", "aws", "--apply"]);
    assert_eq!(code, 0, "{error}");
    enqueue(&home, 1..=5, "");
    let (code, report, error) = home.run(&["pipeline", "run"]);
    assert_eq!(code, 0, "{report}{error}");
    let items = tables.items(TABLE);
    let text =
        |item: &Value, name: &str, kind: &str| item[name][kind].as_str().unwrap_or_default().to_owned();
    let used: u64 = items.iter().map(|item| text(item, "request_count", "N").parse::<u64>().unwrap()).sum();
    assert_eq!(used, 10, "five jobs in two stages: {items:?}");
    assert!(items.iter().all(|item| text(item, "api_type", "S") == "adobe"), "{items:?}");
}
