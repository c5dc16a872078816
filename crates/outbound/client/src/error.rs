//! Why a call failed, with every attempt; why there is no client.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use tollway::config::ApiHeaderError;
use tollway::core::Name;
use tollway::{BuildError, ConfigError, TakeError, Timestamp};
use tollway_dialects::RefusalKind;

/// Errors of whatever sends the request.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One attempt to call a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was sent, by the local clock.
    pub at: Timestamp,
    /// How long it waited for its permits before.
    pub waited: Duration,
    /// The status of the answer; `None` if there was none.
    pub status: Option<StatusCode>,
    /// Why the vendor refused.
    pub refusal: Option<RefusalKind>,
    /// How long the vendor asked to wait.
    pub wait: Option<Duration>,
    /// The vendor's own word for it.
    pub said: Option<String>,
}

impl Attempt {
    /// One that has no answer yet.
    pub(crate) fn new(at: Timestamp, waited: Duration) -> Self {
        Self { at, waited, status: None, refusal: None, wait: None, said: None }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{}", status.as_u16())?,
            None => f.write_str("no answer")?,
        }
        if let Some(kind) = self.refusal {
            write!(f, " {kind}")?;
        }
        if let Some(said) = &self.said {
            write!(f, " ({said})")?;
        }
        match self.wait {
            Some(wait) => write!(f, ", wait {}", seconds(wait)),
            None => Ok(()),
        }
    }
}

/// The attempts of a call that was answered, in the extensions of its response.
///
/// ```no_run
/// # async fn example(notion: tollway_client::ApiClient) -> Result<(), Box<dyn std::error::Error>> {
/// use tollway_client::Attempts;
///
/// let response = notion.get("/v1/users").send().await?;
/// let attempts = Attempts::of(response.extensions());
/// println!("answered after {} refusals", attempts.len() - 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Attempts(pub(crate) Vec<Attempt>);

impl Attempts {
    /// Every attempt in order, the answered one last. Empty if the response is not of a call of this crate.
    pub fn of(extensions: &http::Extensions) -> &[Attempt] {
        extensions.get::<Self>().map_or(&[], |attempts| &attempts.0)
    }
}

/// A call that got no answer to pass on.
pub struct CallError {
    /// The api.
    pub api: Name,
    /// Why.
    pub failure: CallFailure,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
}

tollway::core::debug_as_display!(CallError);

/// Why a call got no answer to pass on.
#[derive(thiserror::Error)]
pub enum CallFailure {
    /// The vendor refused as often as the call may be sent.
    #[error("the vendor refused it as often as it may be sent")]
    Refused,
    /// The vendor refused, and the request cannot be sent again.
    #[error("the vendor refused it, and its body cannot be sent again")]
    CannotRepeat,
    /// The account has no quota at all: waiting does not help.
    #[error("the account has no access: check its plan, its credit and its key")]
    NoAccess,
    /// No permit within the time the call may take.
    #[error("no permit within the time it may take: {0}")]
    NoPermit(#[source] Box<TakeError>),
    /// The vendor holds calls back for longer than the call may take, and the store could not be told.
    #[error("the vendor holds calls back for another {}", seconds(*.0))]
    Held(Duration),
    /// Its turn did not come within the time the call may take.
    #[error("its turn did not come within the time it may take: {waiting} calls of this process wait")]
    NoTurn {
        /// The calls that wait.
        waiting: usize,
    },
    /// Its turn comes later than it may wait. Only of calls with a `max_wait`.
    #[error("its turn comes in about {}, later than it may wait: {waiting} calls of this process wait", seconds(*wait))]
    LateTurn {
        /// The time until its turn, estimated.
        wait: Duration,
        /// The calls that wait.
        waiting: usize,
    },
    /// Too many calls wait already.
    #[error("too many calls of this process wait already")]
    TooManyWaiting,
    /// No answer within the time of one attempt.
    #[error("no answer within {}", seconds(*.0))]
    Timeout(Duration),
    /// The request could not be sent, or its answer not be read.
    #[error("{}", causes(.0.as_ref()))]
    Send(#[source] BoxError),
    /// A header of the config has no value.
    #[error(transparent)]
    Header(ApiHeaderError),
    /// The request itself is wrong.
    #[error("{0}")]
    Request(String),
}

tollway::core::debug_as_display!(CallFailure);

impl From<TakeError> for CallFailure {
    fn from(error: TakeError) -> Self {
        Self::NoPermit(Box::new(error))
    }
}

impl CallError {
    /// How long to wait until the vendor accepts calls again, as far as that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        let denied = match &self.failure {
            CallFailure::NoPermit(error) => error.denied().map(|denied| denied.retry_after()),
            CallFailure::Held(held) => Some(*held),
            CallFailure::LateTurn { wait, .. } => Some(*wait),
            _ => None,
        };
        denied.or_else(|| self.attempts.last()?.wait)
    }

    /// Why the vendor refused last, if it did.
    pub fn refusal(&self) -> Option<RefusalKind> {
        self.attempts.last()?.refusal
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match &self.failure {
            CallFailure::NoAccess | CallFailure::Header(_) | CallFailure::Request(_) => false,
            CallFailure::NoPermit(error) => matches!(**error, TakeError::Denied(_) | TakeError::Store(_)),
            CallFailure::Refused
            | CallFailure::CannotRepeat
            | CallFailure::Held(_)
            | CallFailure::NoTurn { .. }
            | CallFailure::LateTurn { .. }
            | CallFailure::TooManyWaiting
            | CallFailure::Timeout(_)
            | CallFailure::Send(_) => true,
        }
    }
}

/// The most attempts that a message lists; the first ones, and the last.
const LISTED_MAX: usize = 8;

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of api {} failed: {}", self.api, self.failure)?;
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index + 1 < self.attempts.len() && index + 1 >= LISTED_MAX {
                continue;
            }
            write!(f, "; attempt {}: {attempt}", index + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.failure)
    }
}

/// Why there is no client or limiter of an api.
#[derive(thiserror::Error)]
pub enum ClientError {
    /// Neither the config nor the profiles have it.
    #[error("there is no api {name:?}{}; write [apis.{name}] into the config, or use a profile: `tollway api list`",
        .meant.as_ref().map(|known| format!("; did you mean {known:?}?")).unwrap_or_default())]
    UnknownApi {
        /// The unknown name.
        name: String,
        /// The name that may have been meant.
        meant: Option<String>,
    },
    /// The config file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The limiter could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The webhook of the config cannot be used.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Webhook(#[from] tollway_notify::webhook::WebhookError),
    /// The account is not a valid subject.
    #[error(transparent)]
    Account(#[from] tollway::core::NameError),
    /// A vendor with an address for each customer: the config has to name it.
    #[error("the base_url of api {0} has a part to fill in, {1:?}; write it into [apis.{0}] of the config")]
    BaseUrl(Name, String),
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built: {0}")]
    Http(#[source] BoxError),
}

tollway::core::debug_as_display!(ClientError);

/// An error and what caused it, on one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        millis @ 1_000..10_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} s", millis / 1_000),
    }
}
