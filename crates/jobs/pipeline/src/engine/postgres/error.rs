//! Maps errors of Postgres to engine errors: whose fault, and whether to retry.

use tokio_postgres::Error;
use tollway_core::{Fault, Retry, StoreError};
use tollway_postgres_link::{ErrorText, classify, is_refused, timed_out};

use crate::{EngineError, EngineFault};

/// How messages name the URL. The server's detail may hold a job's data and is left out.
pub(super) const TEXT: ErrorText = ErrorText {
    url: "the engine's URL",
    too_many_connections: "raise max_connections, or lower `connections` in the engine's URL",
    detail: false,
};

/// Why an operation failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The operation is wrong; others of its batch go on.
    Alone(EngineError),
    /// Postgres refused a statement, or could not be reached.
    Postgres(StoreError),
}

impl Failure {
    /// Whether other transactions were in the way: the same succeeds when they have ended.
    pub(super) fn is_contention(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.fault == Fault::Account && error.retry == Retry::Safe)
    }

    /// Whether it concerns one operation of a batch, and not the server.
    pub(super) fn is_of_one(&self) -> bool {
        match self {
            Self::Alone(_) => true,
            Self::Postgres(error) => error.fault == Fault::Account,
        }
    }

    /// What callers hear.
    pub(super) fn answer(self) -> EngineError {
        match self {
            Self::Alone(error) => error,
            Self::Postgres(StoreError { fault, retry, message }) => {
                let fault = match fault {
                    Fault::Caller => EngineFault::Caller,
                    Fault::Account if retry == Retry::Useless => EngineFault::Caller,
                    Fault::Account | Fault::Throttled => EngineFault::Busy,
                    Fault::Network => EngineFault::Network,
                    Fault::Store | Fault::Full => EngineFault::Storage,
                };
                EngineError { fault, retry, message }
            }
        }
    }

    /// The same for statements that were sent together with `COMMIT`: if the session was lost, they may be committed.
    pub(super) fn with_commit(self) -> Self {
        match self {
            Self::Postgres(error) if error.retry == Retry::Safe && error.fault != Fault::Account => {
                Self::Postgres(StoreError { retry: Retry::Unclear, ..error })
            }
            other => other,
        }
    }

    /// The answer did not come in time, and it is not known what was committed.
    pub(super) fn silence() -> Self {
        Self::Postgres(timed_out(Retry::Unclear))
    }

    /// Another transaction removed a row between two statements.
    pub(super) fn outrun() -> Self {
        let message = "another transaction removed the job meanwhile".to_owned();
        Self::Postgres(StoreError { fault: Fault::Account, retry: Retry::Safe, message })
    }
}

/// An error before `COMMIT` was sent: nothing was changed.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Postgres(before_commit(&error))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Alone(error)
    }
}

/// The meaning of an error before `COMMIT` was sent.
pub(super) fn before_commit(error: &Error) -> StoreError {
    classify(error, Retry::Safe, &TEXT)
}

/// The meaning of an error of `COMMIT`, or of what was sent together with it: a session that ended may have committed.
pub(super) fn at_commit(error: &Error) -> Failure {
    let known = before_commit(error);
    let retry = if is_refused(error) { known.retry } else { Retry::Unclear };
    Failure::Postgres(StoreError { retry, ..known })
}
