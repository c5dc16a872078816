//! Limit sources: amounts that are kept outside the store and the config file, as in AWS SSM.
//!
//! A policy that names one gets its limits' amounts from there. They are read in the background, never on the way of a
//! take. The last amounts read stay in force while the source fails or gives something that is not an amount. Before the
//! first successful read, the config file's amounts are. A short program can keep the last reading in a file, for the next. Limits set in the store ([`Limiter::set_limit`]) override a source,
//! and a source overrides the file.
//!
//! Where to look: `url` is the source in a config file, `poll` reads it repeatedly, `polled_sources` holds all of them,
//! `reading` checks one reading, `kept` keeps the last one in a file, `origin` reports where an amount comes from, `ssm` is the only source so far.
//!
//! [`Limiter::set_limit`]: crate::Limiter::set_limit

mod kept;
mod origin;
mod poll;
mod polled_sources;
mod reading;
#[cfg(feature = "aws")]
mod ssm;
mod url;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use tollway_core::{Name, Span};

pub(crate) use kept::KeptReading;
pub use origin::Origin;
pub use poll::SourceStatus;
pub(crate) use polled_sources::PolledSources;
pub use url::{SourceUrl, SourceUrlError};

/// How often a source is read by default.
pub const SOURCE_EVERY_DEFAULT: Span = Span::from_secs(5 * 60);

/// A source is read at most this often: reading costs money and has limits of its own.
pub const SOURCE_EVERY_MIN: Span = Span::from_secs(1);

/// A source is read at least this often.
pub const SOURCE_EVERY_MAX: Span = Span::from_secs(24 * 60 * 60);

/// A reading of a source, later: for each limit the text that is kept for it, or nothing.
pub type SourceAnswer = Pin<Box<dyn Future<Output = Result<Vec<Option<String>>, SourceError>> + Send>>;

/// Where the amounts of a policy's limits are kept.
///
/// It only reads; when to read, what a text means and what to do when it fails is decided once, for all sources.
pub trait Source: Send + Sync + 'static {
    /// Reads what is kept for these limits, in their order. Polled on a tokio runtime that has timers and I/O.
    fn read(&self, limits: &[Name]) -> SourceAnswer;

    /// Its name for people, as in `ssm:/pdf-processing/adobe-api-rpm`.
    fn title(&self) -> String;
}

/// A source that could not be read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(
    /// What happened, and what to do about it.
    pub String,
);

tollway_core::debug_as_display!(SourceError);

/// A policy's source, as a config file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    pub(crate) policy: Name,
    pub(crate) url: SourceUrl,
    pub(crate) every: Span,
}

impl PolicySource {
    /// The policy.
    pub fn policy(&self) -> &Name {
        &self.policy
    }

    /// Where its amounts are kept.
    pub fn url(&self) -> &SourceUrl {
        &self.url
    }

    /// How often they are read.
    pub fn every(&self) -> Span {
        self.every
    }
}

/// An opened source, ready to be polled.
#[derive(Clone)]
pub(crate) struct SourceToPoll {
    pub(crate) policy: Name,
    pub(crate) every: Span,
    pub(crate) source: Arc<dyn Source>,
    /// How the config file named it; none if the program added it.
    pub(crate) configured: Option<PolicySource>,
    /// Where its last reading is kept between programs; none if it is not.
    pub(crate) kept: Option<KeptReading>,
}

impl SourceToPoll {
    pub(crate) fn configured(by: &PolicySource) -> Self {
        let source = by.url.open();
        Self { policy: by.policy.clone(), every: by.every, source, configured: Some(by.clone()), kept: None }
    }

    /// Keeps its last reading in this folder.
    pub(crate) fn kept_in(self, folder: &Path) -> Self {
        let identity = |source: &PolicySource| format!("{} {}", source.policy, source.url.identity());
        let kept = self.configured.as_ref().map(|source| KeptReading::new(folder, identity(source)));
        Self { kept, ..self }
    }
}
