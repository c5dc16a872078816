//! `tollway completions`: shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Print a completion script for your shell
///
/// For bash, put this into ~/.bashrc:  source <(tollway completions bash)
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tollway", &mut script);
    context.output().bytes(&script)?;
    Ok(Exit::DONE)
}
