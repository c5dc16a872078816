//! An engine on queues of its own, and SQS as another program calls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tollway::Limiter;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::*;
use tollway_sqs::SqsEngine;
use tollway_testkit::servers::Ministack;

/// An engine with queues of its own on the shared server.
pub(crate) struct Lab {
    pub(crate) url: String,
    prefix: String,
    pub(crate) engine: Arc<SqsEngine>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::through(&Ministack::shared().endpoint(), "&create=yes")
    }

    pub(crate) fn through(endpoint: &str, more: &str) -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("lab-{}", LABS.fetch_add(1, Ordering::Relaxed));
        let url = format!("sqs:?ledger={prefix}&endpoint={endpoint}&access=test:test&wait=1s{more}");
        let engine = Arc::new(SqsEngine::open(&EngineUrl::parse(&url).unwrap()).unwrap());
        Self { url, prefix, engine }
    }

    pub(crate) fn queue(&self, name: &str) -> String {
        format!("{}/000000000000/{}-{name}", Ministack::shared().endpoint(), self.prefix)
    }

    /// The name of its table.
    pub(crate) fn ledger(&self) -> &str {
        &self.prefix
    }

    pub(crate) async fn claim(&self, count: usize) -> Vec<Claimed> {
        let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(60)).count(count);
        self.engine.claim(request, now()).await.unwrap()
    }

    pub(crate) async fn jobs(&self, state: State) -> Vec<Job> {
        let filter = Filter { state: Some(state), ..Filter::default() };
        self.engine.scan(filter, None, 100).await.unwrap().items
    }
}

pub(crate) fn stage(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn now() -> Timestamp {
    Limiter::builder().build().clock().now()
}

/// Calls SQS as another program does, without the engine.
pub(crate) fn sqs(action: &str, request: &Value) -> Value {
    Ministack::shared().ask(&format!("AmazonSQS.{action}"), request)
}

pub(crate) fn receive(queue: &str) -> Vec<Value> {
    let request = json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"] });
    sqs("ReceiveMessage", &request)["Messages"].as_array().cloned().unwrap_or_default()
}
