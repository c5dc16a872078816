//! A table of minutes of a test's own, stores over it, and Python that counts in it, too.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test file uses a part of it"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use tokio::runtime::Runtime;
use tollway_aws::{Access, Connect, connect};
use tollway_core::{
    Action, Booking, Charge, Clock, Decision, Operation, Outcome, PermitId, Policy, Store, StoreError,
    Subject, Terms, Timestamp,
};
use tollway_dynamodb::DynamoOptions;
use tollway_dynamodb::minute::{Layout, MinuteStore};
use tollway_testkit::servers::{DynamoServer, python_tool};

/// 2025-02-19T10:30:20Z.
pub const NOW: Timestamp = Timestamp::from_secs(1_739_961_020);

/// The end of its minute.
pub const END: Timestamp = Timestamp::from_secs(1_739_961_060);

/// The request that makes a table of this layout.
fn create_table(layout: Layout) -> serde_json::Value {
    let key = layout.key().iter().zip(["HASH", "RANGE"]);
    let schema: Vec<_> =
        key.map(|((name, _), place)| json!({ "AttributeName": name, "KeyType": place })).collect();
    let attributes = layout.key().iter();
    let attributes: Vec<_> =
        attributes.map(|(name, kind)| json!({ "AttributeName": name, "AttributeType": kind })).collect();
    json!({
        "TableName": "minutes",
        "KeySchema": schema,
        "AttributeDefinitions": attributes,
        "BillingMode": "PAY_PER_REQUEST",
    })
}

/// A table of minutes, in a DynamoDB of its own.
pub struct Table {
    pub server: DynamoServer,
    pub layout: Layout,
    pub runtime: Runtime,
    client: Client,
}

impl Table {
    pub fn new(layout: Layout) -> Self {
        let server = DynamoServer::start();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let to = Connect {
            endpoint: Some(endpoint(&server)),
            access: Some(Access { key: "test".to_owned(), secret: "test".to_owned() }),
            ..Connect::default()
        };
        // Without a TTL: the minutes of these tests are long past, and a server that applies it would delete them.
        server.ask("CreateTable", &create_table(layout));
        let client = runtime.block_on(async { Client::new(&connect(&to).await) });
        Self { server, layout, runtime, client }
    }

    /// A store over it, at this endpoint, as another process would have it.
    pub fn store_at(&self, endpoint: &str, clock: Arc<dyn Clock>) -> MinuteStore {
        let url = format!("dynamodb://test:test@minutes?deadline=20s&endpoint={endpoint}");
        let options: DynamoOptions = url.parse().unwrap();
        MinuteStore::with_clock(&options, self.layout, clock).unwrap()
    }

    pub fn store(&self, clock: Arc<dyn Clock>) -> MinuteStore {
        self.store_at(&endpoint(&self.server), clock)
    }

    /// All items, as they are.
    pub fn items(&self) -> Vec<HashMap<String, AttributeValue>> {
        let scanned = self.client.scan().table_name("minutes").consistent_read(true).send();
        self.runtime.block_on(scanned).unwrap().items.unwrap_or_default()
    }

    /// Puts an item, as another program would.
    pub fn put(&self, item: HashMap<String, AttributeValue>) {
        self.runtime
            .block_on(self.client.put_item().table_name("minutes").set_item(Some(item)).send())
            .unwrap();
    }

    /// The count of the only item.
    pub fn count(&self) -> u64 {
        let items = self.items();
        assert_eq!(items.len(), 1, "{items:?}");
        number(&items[0], "request_count")
    }

    /// Python that counts in it as the document's does, at a given time, with threads of its own. It waits for `go`.
    pub fn python(&self, script: &str, limit: u64, now: Timestamp) -> Python {
        self.python_with(4, script, limit, now)
    }

    /// The same with this many threads.
    pub fn python_with(&self, threads: usize, script: &str, limit: u64, now: Timestamp) -> Python {
        let mut child = Command::new(python_tool("python3"))
            .args(["-c", script, &limit.to_string(), &(now.as_micros() / 1_000_000).to_string()])
            .env("AWS_ENDPOINT_URL", endpoint(&self.server))
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("RATE_LIMIT_TABLE", "minutes")
            .env("THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Python { child, lines }
    }
}

fn endpoint(server: &DynamoServer) -> String {
    format!("http://{}", server.addr())
}

/// A task in Python.
pub struct Python {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Python {
    pub fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// How many tokens it got until it was refused.
    pub fn granted(mut self) -> u64 {
        let mut granted = String::new();
        self.lines.read_line(&mut granted).unwrap();
        assert!(self.child.wait().unwrap().success());
        granted.trim().parse().unwrap()
    }
}

pub fn number(item: &HashMap<String, AttributeValue>, name: &str) -> u64 {
    item[name].as_n().unwrap().parse().unwrap()
}

pub fn policy(limit: &str) -> Policy {
    Policy::new("adobe", [limit]).unwrap()
}

pub fn terms() -> Terms {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let permit = PermitId(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
    Terms { readings: true, ..Terms::now(permit) }
}

/// Applies an action to the account of a subject.
pub async fn ask(
    store: &dyn Store,
    policy: &Policy,
    subject: &str,
    cost: u64,
    action: Action,
) -> Result<Outcome, StoreError> {
    let subject = Subject::new(subject).unwrap();
    let cost = policy.cost([("requests", cost)]).unwrap();
    let charge = Charge::new(Arc::new(policy.clone()), subject).with_cost(cost);
    let answer = store.apply(&[Operation::one(charge, action)]);
    Ok(answer.await?.pop().unwrap())
}

pub async fn take(store: &dyn Store, policy: &Policy, subject: &str, cost: u64) -> Decision {
    match ask(store, policy, subject, cost, Action::Take(terms())).await.unwrap() {
        Outcome::Decided(decision) => decision,
        other => panic!("{other:?}"),
    }
}

pub async fn granted(store: &dyn Store, policy: &Policy, subject: &str, cost: u64) -> Booking {
    let decision = take(store, policy, subject, cost).await;
    *decision.booking().unwrap_or_else(|| panic!("{decision:?}"))
}

/// How many takes are granted to some tasks that take until they are denied.
pub async fn take_all(store: Arc<MinuteStore>, policy: Policy, subject: &'static str, tasks: usize) -> u64 {
    let mut takers = tokio::task::JoinSet::new();
    for _ in 0..tasks {
        let (store, policy) = (Arc::clone(&store), policy.clone());
        takers.spawn(async move {
            let mut granted = 0;
            while take(&*store, &policy, subject, 1).await.is_granted() {
                granted += 1;
            }
            granted
        });
    }
    takers.join_all().await.into_iter().sum()
}
