//! The usual workers: loops that receive one message, wait for a token, call, send one message, delete one.

use std::convert::Infallible;

use anyhow::{Context, Result};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::types::{Message, QueueAttributeName, SendMessageBatchRequestEntry};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tollway_aws::{Access, Connect, connect};

use super::WORKERS;
use super::round::Contender;
use super::vendor::{POLICY, Vendor};

/// The longest long poll that SQS has.
const WAIT_SECONDS: i32 = 20;

/// As in our pipeline. The default of 30 s would end while a loop waits for a token.
const VISIBILITY_SECONDS: &str = "900";

/// How many messages SQS takes in one request.
const BATCH: usize = 10;

pub(super) struct Naive {
    client: Client,
    /// The URLs of the queues.
    queues: [String; 2],
    vendor: Vendor,
    jobs: u64,
}

impl Contender for Naive {
    const QUEUES: [&str; 2] = ["first", "second"];

    async fn prepare(endpoint: &str, vendor: &Vendor, jobs: u64) -> Result<Self> {
        let access = Access { key: "test".to_owned(), secret: "test".to_owned() };
        let to = Connect { endpoint: Some(endpoint.to_owned()), access: Some(access), ..Connect::default() };
        let config = aws_sdk_sqs::config::Builder::from(&connect(&to).await);
        // The SDK's default, which `connect` turns off.
        let client = Client::from_conf(config.retry_config(RetryConfig::standard()).build());
        let [first, second] = Self::QUEUES.map(|queue| create(&client, queue));
        let queues = [first.await?, second.await?];
        send_all(&client, &queues[0], jobs).await?;
        Ok(Self { client, queues, vendor: vendor.clone(), jobs })
    }

    async fn work(self) -> Result<()> {
        let [first, second] = &self.queues;
        let (deleted, mut deletions) = unbounded_channel();
        let mut loops = JoinSet::new();
        for (queue, next) in [(first, Some(second)), (second, None)] {
            for _ in 0..WORKERS {
                loops.spawn(run(Worker {
                    client: self.client.clone(),
                    queue: queue.clone(),
                    next: next.cloned(),
                    vendor: self.vendor.clone(),
                    deleted: deleted.clone(),
                }));
            }
        }
        for _ in 0..2 * self.jobs {
            tokio::select! {
                Some(()) = deletions.recv() => {}
                Some(ended) = loops.join_next() => match ended?? {},
            }
        }
        // Idle loops end here, in their long polls.
        Ok(())
    }
}

struct Worker {
    client: Client,
    queue: String,
    /// The queue of the next stage, if any.
    next: Option<String>,
    vendor: Vendor,
    /// Gets an entry for each deleted message.
    deleted: UnboundedSender<()>,
}

async fn run(worker: Worker) -> Result<Infallible> {
    loop {
        let receive = worker.client.receive_message().queue_url(&worker.queue);
        let received = receive.max_number_of_messages(1).wait_time_seconds(WAIT_SECONDS).send().await?;
        for message in received.messages.unwrap_or_default() {
            handle(&worker, &message).await?;
        }
    }
}

async fn handle(worker: &Worker, message: &Message) -> Result<()> {
    let Worker { client, queue, next, vendor, deleted } = worker;
    let data = message.body().context("a message has a body")?;
    let receipt = message.receipt_handle().context("a received message has a receipt")?;
    let permit = vendor.limiter.take(POLICY).await?;
    vendor.call(data).await?;
    drop(permit);
    if let Some(next) = next {
        client.send_message().queue_url(next).message_body(data).send().await?;
    }
    client.delete_message().queue_url(queue).receipt_handle(receipt).send().await?;
    // Without a receiver, the run is over.
    let _ = deleted.send(());
    Ok(())
}

async fn create(client: &Client, name: &str) -> Result<String> {
    let create = client.create_queue().queue_name(name);
    let create = create.attributes(QueueAttributeName::VisibilityTimeout, VISIBILITY_SECONDS);
    create.send().await?.queue_url.context("a new queue has a URL")
}

/// Sends the numbers of all jobs.
async fn send_all(client: &Client, queue: &str, jobs: u64) -> Result<()> {
    let numbers: Vec<u64> = (0..jobs).collect();
    for batch in numbers.chunks(BATCH) {
        let mut request = client.send_message_batch().queue_url(queue);
        for number in batch {
            let entry = SendMessageBatchRequestEntry::builder();
            request = request.entries(entry.id(number.to_string()).message_body(number.to_string()).build()?);
        }
        request.send().await?;
    }
    Ok(())
}
