//! The clients of SQS and DynamoDB, made at their first use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollway_aws::{Access, ClockCheck, ClockOff, Connect, check_region, place_of};
use tollway_core::{Clock, Retry, Span};
use tollway_pipeline::EngineError;
use tollway_pipeline::SqsUrl;

use super::error::{is_passing, storage};

/// The longest answer is that of a long poll of 20 s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How often a call that failed for a moment is repeated, and the first pause, which doubles.
const RETRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// How a pipeline reaches AWS.
pub fn connect(url: &SqsUrl) -> Connect {
    let access = url.access().map(|(key, secret)| Access { key: key.to_owned(), secret: secret.to_owned() });
    Connect {
        region: url.region().map(str::to_owned),
        endpoint: url.endpoint().map(str::to_owned),
        access,
        timeout: None,
    }
}

/// Both clients.
pub(super) struct Clients {
    connect: Connect,
    made: OnceCell<Made>,
    check: ClockCheck,
}

struct Made {
    sqs: aws_sdk_sqs::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    /// Where calls go, for messages.
    place: String,
}

impl Clients {
    pub(super) fn new(url: &SqsUrl, clock: Arc<dyn Clock>) -> Self {
        let connect = Connect { timeout: Some(TIMEOUT), ..connect(url) };
        Self { connect, made: OnceCell::new(), check: ClockCheck::new(clock) }
    }

    async fn made(&self) -> Result<&Made, EngineError> {
        let make = async {
            let config = tollway_aws::connect(&self.connect).await;
            check_region(&config).map_err(|error| storage(Retry::Useless, error.to_string()))?;
            let queues = aws_sdk_sqs::config::Builder::from(&config).interceptor(self.check.clone());
            let tables = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(self.check.clone());
            Ok(Made {
                sqs: aws_sdk_sqs::Client::from_conf(queues.build()),
                dynamodb: aws_sdk_dynamodb::Client::from_conf(tables.build()),
                place: place_of(&config),
            })
        };
        self.made.get_or_try_init(|| make).await
    }

    pub(super) async fn sqs(&self) -> Result<&aws_sdk_sqs::Client, EngineError> {
        Ok(&self.made().await?.sqs)
    }

    pub(super) async fn dynamodb(&self) -> Result<&aws_sdk_dynamodb::Client, EngineError> {
        Ok(&self.made().await?.dynamodb)
    }

    /// What errors call a queue.
    pub(super) fn queue_in_messages(&self, name: &str) -> String {
        format!("SQS, queue {name}{}", self.place())
    }

    /// What errors call a table.
    pub(super) fn table_in_messages(&self, name: &str) -> String {
        format!("DynamoDB, table {name}{}", self.place())
    }

    /// Nothing before the first call.
    fn place(&self) -> &str {
        self.made.get().map_or("", |made| &made.place)
    }

    /// A clock that is off by a good part of the visibility timeout takes over claims that others still work on.
    pub(super) fn check_clock(&self, visibility: Span) -> Result<(), EngineError> {
        let harmful = |off: &ClockOff| off.off.as_micros() > visibility.as_micros() / 4;
        match self.check.off().filter(harmful) {
            Some(off) => Err(storage(Retry::Safe, off.to_string())),
            None => Ok(()),
        }
    }
}

/// How often a call was repeated.
pub(super) struct Retries {
    left: u32,
    pause: Duration,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { left: RETRIES, pause: PAUSE }
    }

    /// Pauses, and says whether to repeat a call that failed so.
    pub(super) async fn repeats_after(&mut self, error: &EngineError) -> bool {
        if self.left == 0 || !is_passing(error) {
            return false;
        }
        tracing::debug!(%error, "a call to AWS is repeated");
        tokio::time::sleep(self.pause).await;
        self.left -= 1;
        self.pause *= 2;
        true
    }
}

/// Repeats a call that may be sent twice while it fails for a moment.
// A macro, because futures of async closures are not `Send` for every lifetime.
macro_rules! retried {
    ($call:expr) => {{
        let mut retries = $crate::engine::clients::Retries::new();
        loop {
            // Boxed: a call of the SDK is a future of many kilobytes, and callers nest.
            let answer: Result<_, tollway_pipeline::EngineError> = Box::pin(async { $call }).await;
            match answer {
                Err(error) if retries.repeats_after(&error).await => {}
                answer => break answer,
            }
        }
    }};
}
pub(super) use retried;
