//! Sends events to one destination: a queue, the delivery, and a thread that starts with the first event.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
#[cfg(feature = "aws")]
use tollway::config::TopicConfig;
use tollway::config::WebhookConfig;
use tollway::incident::{Incident, IncidentSink};
use tollway_memory::WallClock;

use crate::webhook::WebhookError;
use crate::webhook::delivery::{Delivery, Destination};
use crate::webhook::event::Event;
use crate::webhook::http::HttpReceiver;
use crate::webhook::queue::{EventQueue, QueueLimits};
#[cfg(feature = "aws")]
use crate::webhook::sns::Topic;

/// How events are sent. The defaults are meant for people who get a message for each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// How long an event waits for others like it; 2 s.
    pub merge_for: Duration,
    /// The shortest time between two events of one policy; 60 s.
    pub repeat_after: Duration,
    /// How many events wait; 64.
    pub waiting_max: usize,
    /// The time of one attempt; 10 s.
    pub timeout: Duration,
    /// The most attempts for one event; 8.
    pub tries: u32,
    /// The pause after the first failure, which doubles up to 30 s; 1 s.
    pub backoff: Duration,
    /// The time of all attempts for one event; 3 min.
    pub give_up_after: Duration,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            merge_for: Duration::from_secs(2),
            repeat_after: Duration::from_secs(60),
            waiting_max: 64,
            timeout: Duration::from_secs(10),
            tries: 8,
            backoff: Duration::from_secs(1),
            give_up_after: Duration::from_secs(180),
        }
    }
}

/// Sends events to one destination, in their order, one at a time.
pub struct EventSender {
    name: &'static str,
    queue: Arc<EventQueue>,
    delivery: Arc<Delivery>,
    /// Whether the thread was started.
    started: Mutex<bool>,
    /// Whether no thread could be started; said once.
    stuck: AtomicBool,
}

impl EventSender {
    /// To a webhook as a config names it. Connects when there is something to send.
    pub fn webhook(config: &WebhookConfig, options: SendOptions) -> Result<Self, WebhookError> {
        let (url, secret, clock) = (config.expose_url(), config.secret()?, Arc::new(WallClock));
        let receiver = HttpReceiver::new(url, config.host(), secret, clock, options)?;
        Ok(Self::new("webhook", Destination::Http(receiver), options))
    }

    /// To a topic of SNS as a config names it, with the credentials that every AWS tool finds.
    #[cfg(feature = "aws")]
    pub fn topic(config: &TopicConfig, options: SendOptions) -> Self {
        Self::topic_at(config, tollway_aws::Connect::default(), options)
    }

    /// The same over another way to AWS. The region is the topic's.
    #[cfg(feature = "aws")]
    pub fn topic_at(config: &TopicConfig, connect: tollway_aws::Connect, options: SendOptions) -> Self {
        let connect = tollway_aws::Connect { region: Some(config.region().to_owned()), ..connect };
        Self::new("sns", Destination::Sns(Topic::new(config.arn(), connect, options)), options)
    }

    fn new(name: &'static str, destination: Destination, options: SendOptions) -> Self {
        let SendOptions { merge_for, repeat_after, waiting_max, .. } = options;
        let queue = EventQueue::new(QueueLimits { merge_for, repeat_after, waiting_max });
        Self {
            name,
            queue: Arc::new(queue),
            delivery: Arc::new(Delivery { destination, options }),
            started: Mutex::new(false),
            stuck: AtomicBool::new(false),
        }
    }

    /// Queues an event. Never blocks.
    pub fn send_event(&self, event: Event) {
        self.start();
        self.queue.push(event);
    }

    /// Whether what it sends to is there, as far as that can be asked without an event: a topic of SNS.
    pub async fn check(&self) -> Result<(), WebhookError> {
        self.delivery.destination.check().await.map_err(WebhookError::Destination)
    }

    fn start(&self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started {
            return;
        }
        let (queue, delivery) = (Arc::clone(&self.queue), Arc::clone(&self.delivery));
        let thread = thread::Builder::new().name(format!("tollway-{}", self.name));
        *started = thread.spawn(move || run(&queue, &delivery)).is_ok();
        if !*started && !self.stuck.swap(true, Ordering::Relaxed) {
            tracing::warn!(to = self.name, "no thread could be started to send events; they wait");
        }
    }
}

impl IncidentSink for EventSender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn send(&self, incident: &Arc<Incident>) {
        self.send_event(Event::incident(incident));
    }

    fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    fn flush(&self, within: Duration) -> bool {
        self.queue.flush(within)
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Sends until the queue is closed. Has a runtime of its own: the caller's may end first.
fn run(queue: &EventQueue, delivery: &Delivery) {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            while let Some(event) = queue.next().await {
                let delivered = delivery.deliver(&event, queue).await;
                queue.done(event, delivered);
            }
        }),
        Err(error) => tracing::warn!(%error, "events cannot be sent"),
    }
}
