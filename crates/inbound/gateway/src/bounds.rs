//! Every bound of the gateway, with its reason. Connections and heads are bounded by the server's.

use std::time::Duration;

/// The longest request body that is kept for a retry. Longer ones are streamed, and sent once: few calls of language models
/// are longer, and a waiting call holds its body.
pub(crate) const KEPT_BYTES_MAX: usize = 1_024 * 1_024;

/// The most bytes of request bodies that the calls of a worker keep. Beyond it they are streamed once it is their turn.
pub(crate) const KEPT_BYTES_PER_WORKER_MAX: usize = 128 * 1_024 * 1_024;

/// How long a request body may take to arrive before the call asks for its permits. A slower one is streamed.
pub(crate) const READ_AHEAD: Duration = Duration::from_secs(1);

/// Accounts of credentials in one process, each with a queue of its own. Callers beyond them share one.
pub(crate) const ACCOUNTS_MAX: usize = 1_000;

/// An account that was not used for this long makes room for another one, so that invented credentials bring at most as many
/// accounts to the store in this time.
pub(crate) const ACCOUNT_IDLE: Duration = Duration::from_secs(600);

/// How often a store is asked again for the secret of accounts.
pub(crate) const SECRET_RETRY: Duration = Duration::from_secs(5);

/// The longest wait that SDKs sleep themselves before they try again: a refusal that lasts longer tells them not to.
pub(crate) const SDK_SLEEP_MAX: Duration = Duration::from_secs(60);

/// How much earlier than an SDK's own timeout the gateway answers.
pub(crate) const SDK_MARGIN: Duration = Duration::from_secs(1);

/// The longest wait that a caller may name: as long as a hold of a vendor's daily quota.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(25 * 3_600);

/// The wait that is told if none is known.
pub(crate) const RETRY_AFTER_UNKNOWN: Duration = Duration::from_secs(1);

/// Pieces of an answer on their way to a caller with `keepalive`.
pub(crate) const PIECES_MAX: usize = 1;
