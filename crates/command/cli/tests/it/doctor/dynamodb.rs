//! DynamoDB as the store.

use std::process::Command;

use tollway_testkit::servers::DynamoServer;

use super::{codes, told};
use crate::home::Home;

#[test]
fn finds_a_table_without_ttl() {
    let tables = DynamoServer::start();
    let endpoint = format!("http://{}", tables.addr());
    let home = Home::with_config(&format!(
        "[store]\nurl = \"dynamodb://test:test@limits?deadline=20s&region=eu-west-1&endpoint={endpoint}\"\n"
    ));
    // Without a table, the fix makes it.
    assert_eq!(codes(&home, &[]), ["store-unreachable"]);
    let fix = told(&home, &[], "store-unreachable", "fix");
    assert!(fix.contains("tollway provision aws --apply") && !fix.contains("redis-cli"), "{fix}");
    create_without_ttl(&endpoint);
    assert_eq!(codes(&home, &[]), ["items-never-vanish"]);
    assert_eq!(home.run(&["provision", "aws", "--apply"]).0, 0);
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// A table created by hand without TTL.
fn create_without_ttl(endpoint: &str) {
    let table = r#"{"TableName": "limits", "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}]}"#;
    let [signed, user] = ["aws:amz:eu-west-1:dynamodb", "test:test"];
    let [target, kind] =
        ["x-amz-target: DynamoDB_20120810.CreateTable", "content-type: application/x-amz-json-1.0"];
    let words =
        ["-s", "-f", "--aws-sigv4", signed, "--user", user, "-H", target, "-H", kind, "-d", table, endpoint];
    let made = Command::new("curl").args(words).output();
    let made = made.unwrap_or_else(|error| panic!("curl: {error}; install the package curl"));
    assert!(made.status.success(), "{made:?}");
}
