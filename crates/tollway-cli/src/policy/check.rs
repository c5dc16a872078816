//! `tollway policy check`: is the file right, what does it mean, and what should be looked at.

use std::path::{Path, PathBuf};

use serde_json::json;
use tollway::config::ConfigProblem;
use tollway::{Config, ConfigError};

use super::answer::Answer;
use super::{against, findings, text};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  tollway policy check                              what the file here says
  tollway policy check new.toml --against old.toml  which meters keep counting
  tollway policy check --strict --quiet             for scripts

Exit codes:
  0    the file is right
  1    it is right, but has warnings, and --strict was given
  78   it is wrong or missing

The page docs/guide/tuning.md explains each warning by the word in brackets.";

/// Check the config file, explain every limit, warn of what may not be meant
///
/// Says of each policy how long a take waits and what happens while the store does not answer; of each limit what it
/// allows, when it begins anew, and the name by which other commands know it. Warnings go to standard error, each
/// with what to do about it. Nothing is taken, and no store is opened.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The file to check [default: the one that --config names, else $TOLLWAY_CONFIG, else ./tollway.toml]
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    /// An older file: say which meters keep counting when the checked one replaces it
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// Fail with exit code 1 if there is a warning
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let path = match &arguments.file {
        Some(file) => file.clone(),
        None => context.config_path()?,
    };
    let loaded = WholeConfig::load(&path)
        .and_then(|config| Ok((config.into_limits(), load_old(arguments.against.as_deref(), &path)?)));
    match loaded {
        Ok((config, old)) => {
            let changes = old.map(|(old_path, old)| against::compare(old_path, &old, &config));
            let answer = Answer::new(&path, &config, findings::all(&config), changes, context.now());
            let output = context.output();
            if output.is_json() {
                output.json(&answer)?
            } else {
                text::write(&answer, output)?
            }
            // What is said of it on standard error comes behind it.
            output.flush()?;
            judge(answer.warnings.len(), arguments.strict)
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

fn judge(warnings: usize, strict: bool) -> Result<Exit, Failure> {
    if warnings == 0 || !strict {
        return Ok(Exit::DONE);
    }
    let warnings = words::counted(warnings.try_into().unwrap_or(u64::MAX), "warnings");
    Err(Failure::new(Exit::FAILED, format!("{warnings}, and --strict takes a warning for an error"))
        .advise("do what the warnings say (not said with --quiet), or leave --strict out"))
}

/// What is wrong, for programs.
fn problems(path: &Path, error: &ConfigError) -> serde_json::Value {
    let file = error.file().unwrap_or(path).display().to_string();
    let object = |problem: &ConfigProblem| {
        json!({
            "file": file,
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
