//! What the server logs: to standard error, with the time in UTC, down to a level of the operator's choice.

use std::env;
use std::io::stderr;

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::{Exit, Failure};

/// Names the level where the command line does not.
const VARIABLE: &str = "TOLLWAY_LOG_LEVEL";

/// What is logged, and all that matters more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// What somebody must look after
    Error,
    /// What may become that
    Warn,
    /// Changes: of the config, through the administration
    Info,
    /// What single connections and takes come to, with their subjects
    Debug,
}

/// Logs from here on. What is asked for beats the variable, and both beat `--quiet`.
pub(super) fn begin(asked: Option<Level>, quiet: bool) -> Result<(), Failure> {
    let level = match asked {
        Some(level) => level,
        None => named()?.unwrap_or(if quiet { Level::Error } else { Level::Info }),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr).with_target(false);
    tracing_subscriber::registry().with(targets(level)).with(lines).init();
    Ok(())
}

fn named() -> Result<Option<Level>, Failure> {
    let Some(name) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
    let level = name.to_str().and_then(|name| Level::from_str(name, true).ok());
    let wrong = || {
        Failure::new(Exit::CONFIG, format!("${VARIABLE} is {name:?}, which is no level"))
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
    let important = ours.min(LevelFilter::WARN);
    // That layout of a table has a line for every take, by its subject.
    let takes = if level == Level::Debug { ours } else { important };
    Targets::new()
        .with_default(important)
        .with_target("tollway", ours)
        .with_target("tollway_dynamodb::minute", takes)
}
