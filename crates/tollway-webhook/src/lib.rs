//! Sends the incidents of a limiter to a webhook: signed, retried, and merged so that a storm is one event.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // With `webhook` in `[incidents]` of the config.
//! let limiter = tollway::Limiter::from_config("tollway.toml").await?;
//! tollway_webhook::attach(&limiter)?;
//! # Ok(()) }
//! ```
//!
//! Where to look: `event` is what is sent, `queue` merges and bounds events, `delivery` sends one with its retries,
//! `signature` signs it, `webhook` puts them together on a thread.

mod delivery;
mod event;
mod queue;
mod signature;
mod webhook;

use std::sync::Arc;

use tollway::Limiter;
use tollway::config::WebhookSecretError;

pub use event::Event;
pub use signature::sign;
pub use webhook::{Webhook, WebhookOptions};

/// A webhook that cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The secret is missing.
    #[error(transparent)]
    Secret(#[from] WebhookSecretError),
    /// The URL is not one.
    #[error("`webhook` of [incidents] is not a URL; write it like \"https://alerts.example/tollway\"")]
    Url,
    /// The HTTP client could not be made.
    #[error("the HTTP client of the webhook cannot be made: {0}")]
    Client(String),
}

tollway::core::debug_as_display!(WebhookError);

/// Sends the limiter's incidents to the webhook that its config names. False if it names none, or if that is done already.
pub fn attach(limiter: &Limiter) -> Result<bool, WebhookError> {
    match limiter.incidents_config().webhook() {
        Some(config) => {
            let webhook = Webhook::new(config, WebhookOptions::default())?;
            Ok(limiter.add_incident_sink(Arc::new(webhook)))
        }
        None => Ok(false),
    }
}
