//! Exit codes, and the error that ends a command.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use tollway::core::{Fault, StoreError};
use tollway::{BuildError, ConfigError, TakeError};

/// An exit code. `--help` lists Tollway's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const DONE: Self = Self(0);
    pub(crate) const FAILED: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const DATA: Self = Self(65);
    pub(crate) const NOT_FOUND: Self = Self(66);
    pub(crate) const STORE: Self = Self(69);
    pub(crate) const DENIED: Self = Self(75);
    pub(crate) const CONFIG: Self = Self(78);
    pub(crate) const CANNOT_RUN: Self = Self(126);
    pub(crate) const NO_COMMAND: Self = Self(127);

    /// The code of a child process, or one given with `--or-exit`.
    pub(crate) const fn new(code: u8) -> Self {
        Self(code)
    }

    /// A store refuses what it cannot keep, such as a limit that does not fit its layout: the caller's mistake.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        if error.fault == Fault::Caller { Self::USAGE } else { Self::STORE }
    }

    /// Why a take was not granted.
    pub(crate) fn of_take(error: &TakeError) -> Self {
        match error {
            TakeError::Denied(_) => Self::DENIED,
            TakeError::UnknownPolicy { .. } => Self::NOT_FOUND,
            TakeError::Name(_) | TakeError::Cost(_) | TakeError::Refused(_) => Self::USAGE,
            TakeError::Store(error) => Self::of_store(error),
            TakeError::BlockingInAsync | TakeError::Runtime(_) => Self::FAILED,
        }
    }

    pub(crate) fn code(self) -> u8 {
        self.0
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// The error that ends a command: message, advice and exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string(), advice: None }
    }

    /// Adds advice: a sentence for the user, without a full stop.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }

    /// Invalid arguments.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::USAGE, message)
    }

    /// Something that the command line names does not exist.
    pub(crate) fn not_found(message: impl Display) -> Self {
        Self::new(Exit::NOT_FOUND, message)
    }

    /// A file that the command line names and that cannot be read.
    pub(crate) fn unreadable(exit: Exit, path: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::not_found(format!("there is no file {path}")),
            _ => Self::new(exit, format!("cannot read {path}: {error}")),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::CONFIG, error)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let exit = if matches!(error, BuildError::File(_) | BuildError::Store(_)) {
            Exit::STORE
        } else {
            Exit::CONFIG
        };
        Self::new(exit, error)
    }
}

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Self {
        Self::new(Exit::of_take(&error), error)
    }
}

/// Writing the result failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::FAILED, format!("cannot write the result: {error}"))
    }
}
