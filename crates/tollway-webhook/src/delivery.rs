//! Sends one event, and again if the receiver fails or is busy.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::time::Instant;
use tollway::core::Clock;
use tollway_dialects::{Dialect, VendorResponse};

use crate::event::Event;
use crate::queue::EventQueue;
use crate::{WebhookError, WebhookOptions, sign};

/// How long a connection may take, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A receiver that asks for more is tried again earlier.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The longest pause of our own between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The receiver of events.
pub(crate) struct Receiver {
    client: Client,
    url: Url,
    /// Scheme and host, for messages: the rest of the URL may be a secret.
    host: String,
    secret: Option<String>,
    clock: Arc<dyn Clock>,
    options: WebhookOptions,
}

/// What came of one attempt.
enum Attempt {
    Delivered,
    /// Another attempt would end the same way.
    Rejected(String),
    /// Worth another attempt, after the time that the receiver asks for.
    Failed(String, Option<Duration>),
}

impl Receiver {
    pub(crate) fn new(
        url: &str,
        host: &str,
        secret: Option<String>,
        clock: Arc<dyn Clock>,
        options: WebhookOptions,
    ) -> Result<Self, WebhookError> {
        let url = Url::parse(url).map_err(|_| WebhookError::Url)?;
        // Fails if the program has chosen a provider already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            // A redirect would send the event, and its signature, somewhere else.
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(options.timeout)
            // Nothing is configured by the environment.
            .no_proxy()
            // Events are rare: a kept connection would be stale.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| WebhookError::Client(reason(error)))?;
        Ok(Self { client, url, host: host.to_owned(), secret, clock, options })
    }

    /// Whether the event was delivered within its tries and its time.
    pub(crate) async fn deliver(&self, event: &Event, queue: &EventQueue) -> bool {
        let (body, begun) = (event.body(), Instant::now());
        let mut tries = 0;
        let why = loop {
            let (why, wait) = match self.attempt(event, body.clone()).await {
                Attempt::Delivered => return true,
                Attempt::Rejected(why) => break why,
                Attempt::Failed(why, wait) => (why, wait),
            };
            tries += 1;
            let pause = wait.map_or_else(|| self.backoff(tries), |wait| wait.min(RETRY_AFTER_MAX));
            if tries >= self.options.tries || begun.elapsed() + pause > self.options.give_up_after {
                break format!("{why}, after {tries} tries");
            }
            tracing::debug!(host = self.host, why, ?pause, "an event is sent again");
            if !pause_unless_closed(pause, queue).await {
                break why;
            }
        };
        let (host, id, count) = (&self.host, &event.id, event.count);
        tracing::warn!(host, id, count, why, "an event could not be sent to the webhook");
        false
    }

    async fn attempt(&self, event: &Event, body: Vec<u8>) -> Attempt {
        let timestamp = self.clock.now().as_micros() / 1_000_000;
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("tollway/", env!("CARGO_PKG_VERSION")))
            .header("tollway-event", event.kind)
            .header("tollway-id", &event.id)
            .header("tollway-timestamp", timestamp);
        if let Some(secret) = &self.secret {
            request = request.header("tollway-signature", sign(secret, timestamp, &body));
        }
        match request.body(body).send().await {
            Ok(response) => judge(&response),
            Err(error) => Attempt::Failed(reason(error), None),
        }
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

/// Its body says nothing that is needed, so it is not read.
fn judge(response: &Response) -> Attempt {
    let status = response.status();
    let why = format!("the receiver answered {status}");
    if status.is_success() {
        Attempt::Delivered
    } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        let observed = VendorResponse { status, headers: response.headers(), body: b"" };
        Attempt::Failed(why, Dialect::by_name("http").and_then(|http| http.observe(&observed).wait))
    } else {
        Attempt::Rejected(why)
    }
}

/// The innermost cause, which says most, and never the URL.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
