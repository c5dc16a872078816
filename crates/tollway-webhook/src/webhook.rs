//! The webhook: a queue, a receiver, and a thread that starts with the first event.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tollway::config::WebhookConfig;
use tollway::incident::{Incident, IncidentSink};
use tollway_memory::WallClock;

use crate::WebhookError;
use crate::delivery::Receiver;
use crate::event::Event;
use crate::queue::{EventQueue, QueueLimits};

/// How a webhook is called. The defaults are meant for people who get a message for each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
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

impl Default for WebhookOptions {
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

/// Sends events to one URL, in their order, one at a time.
pub struct Webhook {
    queue: Arc<EventQueue>,
    receiver: Arc<Receiver>,
    /// Whether the thread was started.
    started: Mutex<bool>,
    /// Whether no thread could be started; said once.
    stuck: AtomicBool,
}

impl Webhook {
    /// A webhook as a config names it. Connects when there is something to send.
    pub fn new(config: &WebhookConfig, options: WebhookOptions) -> Result<Self, WebhookError> {
        let WebhookOptions { merge_for, repeat_after, waiting_max, .. } = options;
        let queue = EventQueue::new(QueueLimits { merge_for, repeat_after, waiting_max });
        let (url, secret, clock) = (config.expose_url(), config.secret()?, Arc::new(WallClock));
        let receiver = Receiver::new(url, config.host(), secret, clock, options)?;
        Ok(Self {
            queue: Arc::new(queue),
            receiver: Arc::new(receiver),
            started: Mutex::new(false),
            stuck: AtomicBool::new(false),
        })
    }

    /// Queues an event. Never blocks.
    pub fn send_event(&self, event: Event) {
        self.start();
        self.queue.push(event);
    }

    fn start(&self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started {
            return;
        }
        let (queue, receiver) = (Arc::clone(&self.queue), Arc::clone(&self.receiver));
        let thread = thread::Builder::new().name("tollway-webhook".to_owned());
        *started = thread.spawn(move || run(&queue, &receiver)).is_ok();
        if !*started && !self.stuck.swap(true, Ordering::Relaxed) {
            tracing::warn!("no thread could be started for the webhook; events wait");
        }
    }
}

impl IncidentSink for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
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

impl Drop for Webhook {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Sends until the queue is closed. Has a runtime of its own: the caller's may end first.
fn run(queue: &EventQueue, receiver: &Receiver) {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            while let Some(event) = queue.next().await {
                let delivered = receiver.deliver(&event, queue).await;
                queue.done(&event, delivered);
            }
        }),
        Err(error) => tracing::warn!(%error, "the webhook cannot be called"),
    }
}
