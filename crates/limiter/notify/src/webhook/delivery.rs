//! Sends one event, and again if the receiver fails or is busy.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::webhook::SendOptions;
use crate::webhook::event::Event;
use crate::webhook::http::HttpReceiver;
use crate::webhook::queue::{Delivered, EventQueue};
#[cfg(feature = "aws")]
use crate::webhook::sns::Topic;

/// A receiver that asks for more is tried again earlier.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The longest pause of our own between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Where events go, and how often they are tried.
pub(crate) struct Delivery {
    pub(crate) destination: Destination,
    pub(crate) options: SendOptions,
}

/// Where events go.
pub(crate) enum Destination {
    Http(HttpReceiver),
    #[cfg(feature = "aws")]
    Sns(Topic),
}

/// The result of one attempt.
pub(crate) enum DeliveryOutcome {
    Delivered,
    /// Another attempt would end the same way.
    Rejected(String),
    /// Worth another attempt, after the time that the receiver asks for.
    Failed(String, Option<Duration>),
}

impl Destination {
    async fn attempt(&self, event: &Event, body: Vec<u8>) -> DeliveryOutcome {
        match self {
            Self::Http(receiver) => receiver.attempt(event, body).await,
            #[cfg(feature = "aws")]
            Self::Sns(topic) => topic.attempt(event, body).await,
        }
    }

    /// Whether it is there. A webhook cannot be asked without an event.
    pub(crate) async fn check(&self) -> Result<(), String> {
        match self {
            Self::Http(_) => Ok(()),
            #[cfg(feature = "aws")]
            Self::Sns(topic) => topic.check().await,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Http(receiver) => receiver.host(),
            #[cfg(feature = "aws")]
            Self::Sns(topic) => topic.arn(),
        }
    }
}

impl Delivery {
    /// Whether the event was delivered within its tries and its time.
    pub(crate) async fn deliver(&self, event: &Event, queue: &EventQueue) -> Delivered {
        let (body, begun, to) = (event.body(), Instant::now(), self.destination.name());
        let mut tries = 0;
        let (why, outcome) = loop {
            let (why, wait) = match self.destination.attempt(event, body.clone()).await {
                DeliveryOutcome::Delivered => return Delivered::Yes,
                DeliveryOutcome::Rejected(why) => break (why, Delivered::Rejected),
                DeliveryOutcome::Failed(why, wait) => (why, wait),
            };
            tries += 1;
            let pause = wait.map_or_else(|| self.backoff(tries), |wait| wait.min(RETRY_AFTER_MAX));
            if tries >= self.options.tries || begun.elapsed() + pause > self.options.give_up_after {
                break (format!("{why}, after {tries} tries"), Delivered::GivenUp);
            }
            tracing::debug!(to, why, ?pause, "an event is sent again");
            if !pause_unless_closed(pause, queue).await {
                break (why, Delivered::GivenUp);
            }
        };
        let (id, count) = (&event.id, event.count);
        tracing::warn!(to, id, count, why, "an event could not be sent");
        outcome
    }

    /// Doubles with each try; half of it is left to chance, so that processes do not retry together.
    fn backoff(&self, tries: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        let pause = self.options.backoff.saturating_mul(doubled).min(BACKOFF_MAX);
        let chance = RandomState::new().hash_one(tries) % 1_000;
        pause / 2 + pause / 2 * u32::try_from(chance).unwrap_or_default() / 1_000
    }
}

/// False if the queue was closed meanwhile.
async fn pause_unless_closed(pause: Duration, queue: &EventQueue) -> bool {
    const CHECK_EVERY: Duration = Duration::from_millis(100);
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if queue.is_closed() {
            return false;
        }
        tokio::time::sleep_until(until.min(Instant::now() + CHECK_EVERY)).await;
    }
    !queue.is_closed()
}
