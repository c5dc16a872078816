//! A flood of unknown consumer ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tollway_consumers::{ConsumerId, Records, SqliteRecords};

use super::bank::until;
use crate::messages::{OVER_LIMIT, descriptor, question};
use crate::running::Setup;

const CONFIG: &str = r#"
    [consumers]
    header = "x-consumer-id"
    [[server.descriptors]]
    domain = "edge"
    keys = ["consumer"]
    policy = "consumers"
"#;

/// A thread that looks up records as fast as it can, until it is dropped.
struct Flood {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn of(records: Arc<dyn Records>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (seen, invented) = (Arc::clone(&over), ConsumerId::new("invented").unwrap());
        let flood = move || {
            while !seen.load(Ordering::Relaxed) {
                drop(records.consumer(&invented));
            }
        };
        Self { over, thread: Some(std::thread::spawn(flood)) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// C7, T19: when lookups are overloaded, unknown consumers are denied: with 503 over HTTP, and with OVER_LIMIT for Envoy,
/// which may let failed calls through.
#[test]
fn flood_of_consumer_ids_is_denied() {
    let records: Arc<dyn Records> = Arc::new(SqliteRecords::open("sqlite::memory:").unwrap());
    let server = Setup { records: Some(Arc::clone(&records)), ..Setup::of(CONFIG) }.start();
    let (mut envoy, mut client) = (server.envoy(), server.client());
    let _flood = Flood::of(records);
    let mut names = (0..).map(|number| format!("stranger-{number}"));
    let mut next = || names.next().unwrap();
    until("Envoy gets OVER_LIMIT", || {
        let answer = envoy.ask(&question([descriptor(&[&format!("consumer={}", next())])]));
        let body = serde_json::from_slice::<Value>(&answer.raw_body).unwrap_or_default();
        answer.overall_code == OVER_LIMIT && body["type"] == "urn:tollway:records-unavailable"
    });
    until("HTTP gets a 503", || {
        let answer = client.get("/v1/authorize", &format!("x-consumer-id: {}\r\n", next()));
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        answer.status == 503
            && answer.header("retry-after") == Some("1")
            && answer.json()["status"] == json!(503)
    });
}
