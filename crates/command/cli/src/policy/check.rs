//! `tollway policy check`: validates a config file, explains its limits and prints warnings.

use std::path::{Path, PathBuf};

use serde_json::json;
use tollway::config::ConfigProblem;
use tollway::{Config, ConfigError};
use tollway_config::ConfigFile;

use super::report::CheckReport;
use super::{compare, findings, text};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::humanize;

const EXAMPLES: &str = "\
Examples:
  tollway policy check                              explain the local config file
  tollway policy check new.toml --against old.toml  which limits keep their usage
  tollway policy check --strict --quiet             for scripts

Exit codes:
  0    the file is valid
  1    the file is valid, but has warnings, and --strict was given
  78   the file is invalid or missing

The page docs/guide/tuning.md explains each warning by its code in brackets.";

/// Check the config file and explain every limit
///
/// Prints for each policy how long a take waits and what happens if the store fails; for each limit what it allows, when
/// it resets, and its name in other commands. Warnings, each with advice, go to standard error. Takes nothing and opens no
/// store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The file to check [default: --config, else $TOLLWAY_CONFIG, else ./tollway.toml]
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    /// An older file: show which limits keep their usage when the checked file replaces it
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// Exit with 1 if there is a warning
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let path = match &arguments.file {
        Some(file) => file.clone(),
        None => context.config_path()?,
    };
    let loaded = ConfigFile::<WholeConfig>::load(&path)
        .and_then(|file| Ok((file, load_old(arguments.against.as_deref(), &path)?)));
    match loaded {
        Ok((file, old)) => {
            let files: Vec<String> = file.paths().map(|path| path.display().to_string()).collect();
            let config = file.into_config();
            let rules = config.server().map(|server| server.descriptors.clone()).unwrap_or_default();
            let config = config.into_limits();
            let changes = old.map(|(old_path, old)| compare::compare(old_path, &old, &config));
            let report =
                CheckReport::new(files, &config, &rules, findings::all(&config), changes, context.now());
            let output = context.output();
            if output.is_json() {
                output.json(&report)?
            } else {
                text::write(&report, output)?
            }
            // Before messages on standard error.
            output.flush()?;
            exit_code(report.warnings.len(), arguments.strict)
        }
        Err(error) if context.output().is_json() => {
            context.output().json(&problems(&path, &error))?;
            Ok(Exit::CONFIG)
        }
        Err(error) => Err(error.into()),
    }
}

fn load_old<'a>(old: Option<&'a Path>, path: &Path) -> Result<Option<(&'a Path, Config)>, ConfigError> {
    old.map(|old| Ok((old, WholeConfig::load_earlier(old, path)?.into_limits()))).transpose()
}

fn exit_code(warnings: usize, strict: bool) -> Result<Exit, Failure> {
    if warnings == 0 || !strict {
        return Ok(Exit::DONE);
    }
    let warnings = humanize::counted(warnings.try_into().unwrap_or(u64::MAX), "warnings");
    Err(Failure::new(Exit::FAILED, format!("{warnings}, and --strict is given"))
        .advise("follow the advice of the warnings (hidden by --quiet), or omit --strict"))
}

/// The problems as JSON.
fn problems(path: &Path, error: &ConfigError) -> serde_json::Value {
    let first = error.file().unwrap_or(path);
    let file = first.display().to_string();
    let object = |problem: &ConfigProblem| {
        json!({
            "file": problem.file().unwrap_or(first).display().to_string(),
            "line": problem.line(),
            "column": problem.column(),
            "word": problem.word(),
            "message": problem.message(),
            "advice": problem.advice(),
        })
    };
    let listed: Vec<_> = error.problems().iter().map(object).collect();
    json!({ "file": file, "valid": false, "problems": listed, "problems_unlisted": error.unlisted() })
}
