//! One attempt to send an event to a webhook.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tollway::core::Clock;
use tollway_dialects::{Dialect, VendorResponse};

use crate::webhook::delivery::DeliveryOutcome;
use crate::webhook::event::Event;
use crate::webhook::{SendOptions, WebhookError, sign};

/// How long a connection may take, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The receiver of events.
pub(crate) struct HttpReceiver {
    client: Client,
    url: Url,
    /// Scheme and host, for messages: the rest of the URL may be a secret.
    host: String,
    secret: Option<String>,
    clock: Arc<dyn Clock>,
}

impl HttpReceiver {
    pub(crate) fn new(
        url: &str,
        host: &str,
        secret: Option<String>,
        clock: Arc<dyn Clock>,
        options: SendOptions,
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
        Ok(Self { client, url, host: host.to_owned(), secret, clock })
    }

    /// Where it is, without secrets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) async fn attempt(&self, event: &Event, body: Vec<u8>) -> DeliveryOutcome {
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
            Err(error) => DeliveryOutcome::Failed(reason(error), None),
        }
    }
}

/// Its body says nothing that is needed, so it is not read.
fn judge(response: &Response) -> DeliveryOutcome {
    let status = response.status();
    let why = format!("the receiver answered {status}");
    if status.is_success() {
        DeliveryOutcome::Delivered
    } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        let observed = VendorResponse { status, headers: response.headers(), body: b"" };
        DeliveryOutcome::Failed(why, Dialect::by_name("http").and_then(|http| http.observe(&observed).wait))
    } else {
        DeliveryOutcome::Rejected(why)
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
