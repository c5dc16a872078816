//! The queues of a stage: its messages, and its dead letters.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    QueueAttributeName, SendMessageBatchRequestEntry,
};
use tollway_core::{Name, Retry, Span};
use tollway_pipeline::EngineError;

use super::clients::{Clients, retried};
use super::delivered::Delivered;
use super::error::{failed, is_passing, refused, storage};
use super::lane::{BATCH, BatchAnswer, Lane};
use super::message::{Incoming, Outgoing};

/// How long an entry waits for others. Outputs of several jobs share a request, and so do deletions: at 200 jobs a minute, that
/// is what keeps requests below one for two jobs.
const SEND_LINGER: Duration = Duration::from_millis(400);
const DELETE_LINGER: Duration = Duration::from_millis(1_500);
const HIDE_LINGER: Duration = Duration::from_millis(15);

/// How often entries of a batch that failed for a moment are sent again.
const ENTRY_RETRIES: u32 = 6;

/// How many requests were sent to SQS, by kind.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) receive: AtomicU64,
    pub(super) send: AtomicU64,
    pub(super) delete: AtomicU64,
    pub(super) hide: AtomicU64,
    pub(super) look: AtomicU64,
    pub(super) move_task: AtomicU64,
}

impl Requests {
    pub(super) fn all(&self) -> u64 {
        [&self.receive, &self.send, &self.delete, &self.hide, &self.look, &self.move_task]
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

/// One queue.
pub(super) struct Queue {
    pub(super) name: String,
    url: String,
    clients: Arc<Clients>,
    requests: Arc<Requests>,
    send: Lane<Outgoing>,
    delete: Lane<String>,
    hide: Lane<(String, i32)>,
    delivered: Option<Arc<Delivered>>,
}

/// A stage with its queues.
pub(super) struct StageQueue {
    pub(super) stage: Name,
    pub(super) queue: Queue,
    pub(super) dead: Queue,
}

/// What SQS says of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    pub(super) visible: u64,
    pub(super) retention: Span,
    /// After how many receives SQS itself makes a dead letter.
    pub(super) receives_max: Option<u64>,
}

impl Queue {
    pub(super) fn start(
        name: &str,
        url: String,
        clients: &Arc<Clients>,
        requests: &Arc<Requests>,
        delivered: Option<Arc<Delivered>>,
    ) -> Self {
        let to = || To {
            name: name.into(),
            url: url.clone().into(),
            clients: clients.clone(),
            requests: requests.clone(),
        };
        let (sender, deleter, hider) = (to(), to(), to());
        Self {
            name: name.to_owned(),
            clients: clients.clone(),
            requests: requests.clone(),
            delivered,
            send: Lane::start(SEND_LINGER, move |batch| sender.clone().send(batch)),
            delete: Lane::start(DELETE_LINGER, move |batch| deleter.clone().delete(batch)),
            hide: Lane::start(HIDE_LINGER, move |batch| hider.clone().hide(batch)),
            url,
        }
    }

    /// Sends messages. All that could be sent are, and the first error is the answer.
    pub(super) async fn send(&self, messages: Vec<Outgoing>) -> Result<(), EngineError> {
        self.send_later(messages).await.sent(true, self).await
    }

    /// Hands messages over to be sent with others.
    pub(super) async fn send_later(&self, messages: Vec<Outgoing>) -> Sends {
        let mut receipts = Vec::with_capacity(messages.len());
        for message in messages {
            let bytes = message.bytes();
            receipts.push(self.send.push(message, bytes).await);
        }
        Sends(receipts)
    }

    /// Waits until messages that were handed over are sent.
    pub(super) async fn flush_sends(&self) {
        self.send.flush().await;
    }

    /// Sends and deletes what waits for company.
    pub(super) async fn flush(&self) {
        self.send.flush().await;
        self.delete.flush().await;
        self.hide.flush().await;
    }

    /// Deletes a message, soon. One that is not deleted comes again, and is recognised as a duplicate.
    pub(super) async fn delete(&self, receipt: &str) {
        if self.delivered.as_ref().is_some_and(|delivered| delivered.finish(receipt)) {
            return;
        }
        drop(self.delete.push(receipt.to_owned(), receipt.len()).await);
    }

    /// Hides a message for so many seconds; 0: it is visible at once. A receipt that is too old is no error: then SQS shows the
    /// message again by itself, and the ledger knows whether it may be claimed.
    pub(super) async fn hide(&self, receipt: &str, seconds: i32) -> Result<(), EngineError> {
        if self.delivered.as_ref().is_some_and(|delivered| delivered.has(receipt)) {
            return Ok(());
        }
        self.hide.push((receipt.to_owned(), seconds), receipt.len()).await.wait().await
    }

    /// Receives up to ten messages, and hides them for `visibility`. Waits up to `wait` for the first.
    pub(super) async fn receive(
        &self,
        count: usize,
        visibility: Span,
        wait: Span,
    ) -> Result<Vec<Incoming>, EngineError> {
        let visibility = visibility.as_micros().div_ceil(1_000_000).clamp(1, 12 * 3_600);
        let received = retried!({
            let client = self.clients.sqs().await?;
            self.requests.receive.fetch_add(1, Ordering::Relaxed);
            let request = client
                .receive_message()
                .queue_url(&self.url)
                .max_number_of_messages(i32::try_from(count.clamp(1, BATCH)).unwrap_or(1))
                .visibility_timeout(i32::try_from(visibility).unwrap_or(i32::MAX))
                .wait_time_seconds(i32::try_from(wait.as_micros() / 1_000_000).unwrap_or(0))
                .message_attribute_names("All");
            // Messages of an answer that was lost come again when their visibility is over.
            request.send().await.map_err(|error| failed(&self.service(), &error))
        })?;
        Ok(received.messages.unwrap_or_default().into_iter().filter_map(Incoming::read).collect())
    }

    /// What SQS says of this queue now.
    pub(super) async fn attributes(&self) -> Result<Attributes, EngineError> {
        use QueueAttributeName as A;
        retried!({
            let client = self.clients.sqs().await?;
            self.requests.look.fetch_add(1, Ordering::Relaxed);
            let mut request = client.get_queue_attributes().queue_url(&self.url);
            for name in [A::ApproximateNumberOfMessages, A::MessageRetentionPeriod, A::RedrivePolicy] {
                request = request.attribute_names(name);
            }
            let said = request.send().await.map_err(|error| failed(&self.service(), &error))?;
            let said = said.attributes.unwrap_or_default();
            let number = |name: A| said.get(&name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            let policy = said.get(&A::RedrivePolicy);
            let policy = policy.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
            let receives_max = policy.as_ref().map(|policy| &policy["maxReceiveCount"]);
            Ok(Attributes {
                visible: number(A::ApproximateNumberOfMessages),
                retention: Span::from_secs(number(A::MessageRetentionPeriod)),
                receives_max: receives_max
                    .and_then(|max| max.as_u64().or_else(|| max.as_str().and_then(|text| text.parse().ok()))),
            })
        })
    }

    /// The name that tasks of SQS have for it.
    pub(super) async fn arn(&self) -> Result<String, EngineError> {
        retried!({
            let client = self.clients.sqs().await?;
            self.requests.look.fetch_add(1, Ordering::Relaxed);
            let request = client.get_queue_attributes().queue_url(&self.url);
            let said = request.attribute_names(QueueAttributeName::QueueArn).send().await;
            let said = said.map_err(|error| failed(&self.service(), &error))?;
            let arn = said.attributes.and_then(|mut said| said.remove(&QueueAttributeName::QueueArn));
            arn.ok_or_else(|| storage(Retry::Useless, format!("{}: it has no ARN", self.service())))
        })
    }

    pub(super) fn service(&self) -> String {
        self.clients.queue_in_messages(&self.name)
    }
}

/// Messages that were handed over.
pub(super) struct Sends(Vec<super::lane::Receipt>);

impl Sends {
    /// Waits until all are sent; with `now`, they wait for no others.
    pub(super) async fn sent(self, now: bool, queue: &Queue) -> Result<(), EngineError> {
        if now && !self.0.is_empty() {
            queue.flush_sends().await;
        }
        let mut answer = Ok(());
        for receipt in self.0 {
            answer = answer.and(receipt.wait().await);
        }
        answer
    }
}

/// Where a lane sends its batches.
#[derive(Clone)]
struct To {
    name: Arc<str>,
    url: Arc<str>,
    clients: Arc<Clients>,
    requests: Arc<Requests>,
}

/// The outcome of the entries of one request, by their index.
type Failures = HashMap<usize, EngineError>;

type Answer = Pin<Box<dyn Future<Output = Result<Failures, EngineError>> + Send>>;

impl To {
    fn service(&self) -> String {
        self.clients.queue_in_messages(&self.name)
    }

    fn send(self, batch: Vec<Outgoing>) -> BatchAnswer {
        Box::pin(self.batch(batch, |to: Self, entries: Vec<(usize, Outgoing)>| -> Answer {
            Box::pin(async move {
                let client = to.clients.sqs().await?;
                to.requests.send.fetch_add(1, Ordering::Relaxed);
                let mut request = client.send_message_batch().queue_url(&*to.url);
                for (index, message) in entries {
                    let entry = SendMessageBatchRequestEntry::builder()
                        .id(index.to_string())
                        .message_body(message.body)
                        .set_message_attributes(Some(message.attributes))
                        .delay_seconds(message.delay_seconds);
                    request = request.entries(entry.build().map_err(unbuilt)?);
                }
                let said = request.send().await.map_err(|error| failed(&to.service(), &error))?;
                Ok(failures(&to.service(), &said.failed))
            })
        }))
    }

    fn delete(self, batch: Vec<String>) -> BatchAnswer {
        Box::pin(self.batch(batch, |to: Self, entries: Vec<(usize, String)>| -> Answer {
            Box::pin(async move {
                let client = to.clients.sqs().await?;
                to.requests.delete.fetch_add(1, Ordering::Relaxed);
                let mut request = client.delete_message_batch().queue_url(&*to.url);
                for (index, receipt) in entries {
                    let entry = DeleteMessageBatchRequestEntry::builder()
                        .id(index.to_string())
                        .receipt_handle(receipt);
                    request = request.entries(entry.build().map_err(unbuilt)?);
                }
                let said = request.send().await.map_err(|error| failed(&to.service(), &error))?;
                Ok(failures(&to.service(), &said.failed))
            })
        }))
    }

    fn hide(self, batch: Vec<(String, i32)>) -> BatchAnswer {
        Box::pin(self.batch(batch, |to: Self, entries: Vec<(usize, (String, i32))>| -> Answer {
            Box::pin(async move {
                let client = to.clients.sqs().await?;
                to.requests.hide.fetch_add(1, Ordering::Relaxed);
                let mut request = client.change_message_visibility_batch().queue_url(&*to.url);
                for (index, (receipt, seconds)) in entries {
                    let entry = ChangeMessageVisibilityBatchRequestEntry::builder();
                    let entry =
                        entry.id(index.to_string()).receipt_handle(receipt).visibility_timeout(seconds);
                    request = request.entries(entry.build().map_err(unbuilt)?);
                }
                let said = request.send().await.map_err(|error| failed(&to.service(), &error))?;
                Ok(failures(&to.service(), &said.failed))
            })
        }))
    }

    /// Sends a batch, and those of its entries again that failed for a moment.
    async fn batch<T: Clone>(
        self,
        batch: Vec<T>,
        send: fn(Self, Vec<(usize, T)>) -> Answer,
    ) -> Vec<Result<(), EngineError>> {
        let mut answers: Vec<Result<(), EngineError>> = batch.iter().map(|_| Ok(())).collect();
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut pause = Duration::from_millis(50);
        for attempt in 0..=ENTRY_RETRIES {
            let entries = left.iter().map(|index| (*index, batch[*index].clone())).collect();
            let failures = match send(self.clone(), entries).await {
                Ok(failures) => failures,
                Err(error) => left.iter().map(|index| (*index, error.clone())).collect(),
            };
            left.retain(|index| match failures.get(index) {
                Some(error) if is_passing(error) && attempt < ENTRY_RETRIES => true,
                Some(error) => {
                    answers[*index] = Err(error.clone());
                    false
                }
                None => false,
            });
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        answers
    }
}

fn failures(service: &str, failed: &[BatchResultErrorEntry]) -> Failures {
    let one = |entry: &BatchResultErrorEntry| {
        let code = entry.code();
        // The message was received again, or deleted: its new receipt counts.
        if matches!(code, "ReceiptHandleIsInvalid" | "MessageNotInflight")
            || code.ends_with("MessageNotInflight")
        {
            return None;
        }
        let said = entry.message().unwrap_or("it gives no reason");
        // A visibility beyond twelve hours after the receive: SQS shows the message, and it is hidden again. Or another program has
        // deleted it, or SQS moved it: the ledger knows what becomes of its job.
        if said.contains("Total VisibilityTimeout") || said.contains("does not exist or is not available") {
            return None;
        }
        Some((entry.id().parse().ok()?, refused(service, code, said, !entry.sender_fault())))
    };
    failed.iter().filter_map(one).collect()
}

fn unbuilt(error: aws_sdk_sqs::error::BuildError) -> EngineError {
    storage(Retry::Useless, error.to_string())
}
