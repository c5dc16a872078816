//! `tollway policy`: the config file, checked and explained.
//!
//! `check` is the command; `answer` is what it says, and `text` says it to people; `sentences` tell what a limit means;
//! `findings` are what may be wrong with a file that is right; `against` compares it with an older one. `import` makes a
//! config of another system's files.

mod against;
mod answer;
mod check;
mod findings;
mod import;
mod sentences;
mod text;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Check the config file and explain every limit; make one of another system's
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Arguments),
    Import(import::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments, context),
        Command::Import(arguments) => import::run(arguments, context),
    }
}
