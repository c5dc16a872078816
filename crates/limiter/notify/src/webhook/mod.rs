//! Sends the incidents of a limiter to a webhook or a topic of AWS SNS: retried, and merged so that a storm is one event.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // With `webhook` or `topic` in `[incidents]` of the config.
//! let limiter = tollway::Limiter::from_config("tollway.toml").await?;
//! tollway_notify::webhook::attach(&limiter)?;
//! # Ok(()) }
//! ```
//!
//! Where to look: `event` is what is sent, `queue` merges and bounds events, `delivery` sends one with its retries, `http` and
//! `sns` are single attempts, `signature` signs for a webhook, `sender` puts them together on a thread, `store_alarms` notices
//! alarms of the store.

mod delivery;
mod event;
mod http;
mod queue;
mod sender;
mod signature;
#[cfg(feature = "aws")]
mod sns;
mod store_alarms;

use std::sync::Arc;

use tollway::Limiter;
use tollway::config::WebhookSecretError;

pub use event::Event;
pub use sender::{EventSender, SendOptions};
pub use signature::sign;
pub use store_alarms::StoreAlarmWatch;

/// A webhook that cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The secret is missing.
    #[error(transparent)]
    Secret(#[from] WebhookSecretError),
    /// The URL is not one.
    #[error("`webhook` of [incidents] is not a URL; write it like \"https://alerts.example/tollway\"")]
    Url,
    /// There is no client for SNS.
    #[error(
        "`topic` of [incidents] needs the AWS SDK, which this build does not have; build it with `--features aws`"
    )]
    NoSns,
    /// What events are sent to is not there, or cannot be asked.
    #[error("{0}")]
    Destination(String),
    /// The HTTP client could not be made.
    #[error("the HTTP client of the webhook cannot be made: {0}")]
    Client(String),
}

tollway::core::debug_as_display!(WebhookError);

/// Senders to the webhook and to the topic that the limiter's config names; none of it is an empty list.
pub fn senders(limiter: &Limiter, options: SendOptions) -> Result<Vec<EventSender>, WebhookError> {
    let config = limiter.incidents_config();
    let webhook = config.webhook().map(|webhook| EventSender::webhook(webhook, options)).transpose()?;
    #[cfg(feature = "aws")]
    let topic = config.topic().map(|topic| EventSender::topic(topic, options));
    #[cfg(not(feature = "aws"))]
    let topic = match config.topic() {
        Some(_) => return Err(WebhookError::NoSns),
        None => None,
    };
    Ok(webhook.into_iter().chain(topic).collect())
}

/// Sends the limiter's incidents to the webhook and to the topic that its config names. False if it names none, or if that is
/// done already.
pub fn attach(limiter: &Limiter) -> Result<bool, WebhookError> {
    let senders = senders(limiter, SendOptions::default())?;
    // All of them are added, also after the first.
    let added: Vec<bool> =
        senders.into_iter().map(|sender| limiter.add_incident_sink(Arc::new(sender))).collect();
    Ok(added.contains(&true))
}
