//! Logs to standard error with UTC times, from a configurable level.

use std::env;

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::failure::{Exit, Failure};
use crate::log::{LineFormat, begin as begin_log};

/// The level, if `--log-level` is not given.
const VARIABLE: &str = "TOLLWAY_LOG_LEVEL";

/// The lowest level that is logged. Changes through the administration are logged at every level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Failures that need attention
    Error,
    /// Conditions that may lead to failures
    Warn,
    /// Changes of config; takes on a DynamoDB table of minutes
    Info,
    /// Single connections and takes, with their subjects
    Debug,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object a line, for collectors of logs
    Json,
}

/// Starts logging. `--log-level` overrides the variable, and both override what is usual.
pub(crate) fn begin(requested: Option<Level>, usual: Level, format: Format) -> Result<(), Failure> {
    let level = match requested {
        Some(level) => level,
        None => level_from_environment()?.unwrap_or(usual),
    };
    let format = match format {
        Format::Text => LineFormat::Text,
        Format::Json => LineFormat::Json,
    };
    begin_log(targets(level), format);
    Ok(())
}

fn level_from_environment() -> Result<Option<Level>, Failure> {
    let Some(name) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
    let level = name.to_str().and_then(|name| Level::from_str(name, true).ok());
    let wrong = || {
        Failure::new(Exit::CONFIG, format!("${VARIABLE} is {name:?}, which is not a log level"))
            .advise("set it to error, warn, info or debug, or unset it")
    };
    level.map(Some).ok_or_else(wrong)
}

fn targets(level: Level) -> Targets {
    let ours = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    Targets::new().with_default(ours.min(LevelFilter::WARN)).with_target("tollway", ours)
}
