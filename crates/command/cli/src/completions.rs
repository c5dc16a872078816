//! `tollway completions`: shell completion scripts.
//!
//! The script asks this program for the words that fit, so it also completes names in the config: see `complete_names`.

use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Set by the scripts to the name of their shell.
const VARIABLE: &str = "TOLLWAY_COMPLETE";

/// Print a completion script for your shell
///
/// For bash, put this into ~/.bashrc:  source <(tollway completions bash)
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

/// Answers the script of a shell and ends the program, if one asks.
pub(crate) fn answer_if_asked() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).bin("tollway").completer("tollway").complete();
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&arguments.shell.to_string())
        .ok_or_else(|| Failure::usage(format!("no completions for {}", arguments.shell)))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "tollway", "tollway", "tollway", &mut script)?;
    context.output().bytes(&script)?;
    Ok(Exit::DONE)
}
